//! Qwen 2 and 2.5: biases on query, key and value.

use crate::registry::{Architecture, Bias};

pub(crate) static ARCHITECTURE: Architecture = Architecture {
    name: "Qwen2ForCausalLM",
    model_type: "qwen2",
    gguf: "qwen2",
    qkv_bias: Bias::Always,
    output_bias: Bias::Never,
    head_norm: false,
};
