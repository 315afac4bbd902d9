//! Sampling parameters, stop rules on tokens and log-probabilities, as values without a device.
//!
//! Everything here is checked once and immutable afterwards: what a client asked for becomes a
//! [`SamplingParams`] or an error that names the field. The crate never sees logits, text or
//! time: drawing tokens is the executor's business, stop *strings* are the text layer's.

mod log_probs;
mod params;
mod stop;

pub use log_probs::{LogProbRequest, TokenLogProbs};
pub use params::{SamplingError, SamplingOptions, SamplingParams};
pub use stop::{Abort, FinishReason, StopRules};

/// An index into the model's vocabulary.
pub type Token = u32;
