//! The pieces that decoders are made of.

mod attention;
mod embedding;
mod gated_mlp;
mod norm;
mod normed;
mod projection;
mod stream;

pub(crate) use attention::Attention;
pub(crate) use embedding::Embedding;
pub(crate) use gated_mlp::GatedMlp;
pub(crate) use norm::Norm;
pub(crate) use normed::{Normed, NormedView};
pub(crate) use projection::{Onward, Projection};
pub(crate) use stream::Stream;
