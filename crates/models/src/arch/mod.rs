//! One file per architecture: what sets it apart from the common decoder.

pub(crate) mod decoder;
pub(crate) mod gemma3;
pub(crate) mod llama;
pub(crate) mod qwen2;
pub(crate) mod qwen3;
