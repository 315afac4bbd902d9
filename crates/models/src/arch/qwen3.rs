//! Qwen 3, dense: normalised query and key heads, a head size of its own.

use crate::registry::{Architecture, Bias};

pub(crate) static ARCHITECTURE: Architecture = Architecture {
    name: "Qwen3ForCausalLM",
    model_type: "qwen3",
    gguf: "qwen3",
    qkv_bias: Bias::Configured,
    output_bias: Bias::Configured,
    head_norm: true,
};
