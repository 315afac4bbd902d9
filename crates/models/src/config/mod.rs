//! Descriptions of models, as files have them, to [`crate::ModelSpec`].

mod gguf;
mod json;
mod limits;

pub use gguf::spec_from_gguf;
pub(crate) use json::TokenIds;
pub use json::spec_from_config;
