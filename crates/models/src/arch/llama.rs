//! Llama 1 to 3, SmolLM2 and everything else that kept its shape.

use crate::registry::{Architecture, Bias};

pub(crate) static ARCHITECTURE: Architecture = Architecture {
    name: "LlamaForCausalLM",
    model_type: "llama",
    gguf: "llama",
    qkv_bias: Bias::Configured,
    output_bias: Bias::Configured,
    head_norm: false,
};
