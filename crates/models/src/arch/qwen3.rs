//! Qwen 3, dense: normalised query and key heads, a head size of its own.

use ops::Activation;

use crate::QueryKeyNorm;
use crate::registry::{Architecture, BEFORE, Bias, Windows};

pub(crate) static ARCHITECTURE: Architecture = Architecture {
    name: "Qwen3ForCausalLM",
    model_type: "qwen3",
    gguf: "qwen3",
    qkv_bias: Bias::Configured,
    output_bias: Bias::Configured,
    query_key_norm: QueryKeyNorm::Head,
    norms: BEFORE,
    windows: Windows::Never,
    scaled_embeddings: false,
    tied: false,
    activation: Activation::Silu,
};
