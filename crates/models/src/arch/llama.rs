//! Llama 1 to 3, SmolLM2 and everything else that kept its shape.

use ops::Activation;

use crate::QueryKeyNorm;
use crate::registry::{Architecture, BEFORE, Bias, Windows};

pub(crate) static ARCHITECTURE: Architecture = Architecture {
    name: "LlamaForCausalLM",
    model_type: "llama",
    gguf: "llama",
    qkv_bias: Bias::Configured,
    output_bias: Bias::Configured,
    query_key_norm: QueryKeyNorm::None,
    norms: BEFORE,
    windows: Windows::Never,
    scaled_embeddings: false,
    tied: false,
    activation: Activation::Silu,
};
