//! What clients write to what the engine is asked.

pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod conversation;
mod log_probs;
pub(crate) mod native;
mod refuse;
mod sampling;
mod spread;

pub(crate) use refuse::{foreign, is_refused};
pub(crate) use spread::Caller;
