//! Reads safetensors and GGUF files as named weights: shapes, encodings and mapped bytes, without copying them.
//!
//! Every length, count and offset of a file is checked against the bytes that are really there before it is used, so
//! a hostile file ends in an error. This crate refuses to know what a model is: it neither builds layers, nor decides
//! which tensors must be present, nor copies weights to a device.

mod encoding;
mod error;
mod file;
mod finite;
pub mod gguf;
mod open;
pub mod safetensors;
mod shard;
mod source;
mod widen;

pub use encoding::{BlockFormat, Encoding};
pub use error::CheckpointError;
pub use finite::{check_finite, first_not_finite};
pub use open::{Checkpoint, open};
pub use shard::{Rank, ShardError, even_part, shared_part};
pub use source::{RowOrder, TensorInfo, WeightSource};
pub use widen::{WidenError, widen};
