//! Qwen 2 and 2.5: biases on query, key and value.

use ops::Activation;

use crate::QueryKeyNorm;
use crate::registry::{Architecture, BEFORE, Bias, Windows};

pub(crate) static ARCHITECTURE: Architecture = Architecture {
    name: "Qwen2ForCausalLM",
    model_type: "qwen2",
    gguf: "qwen2",
    qkv_bias: Bias::Always,
    output_bias: Bias::Never,
    query_key_norm: QueryKeyNorm::None,
    norms: BEFORE,
    windows: Windows::Never,
    scaled_embeddings: false,
    tied: false,
    activation: Activation::Silu,
};
