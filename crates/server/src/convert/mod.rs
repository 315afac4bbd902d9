//! What clients write to what the engine is asked.

pub(crate) mod chat;
pub(crate) mod completions;
mod log_probs;
pub(crate) mod native;
mod refuse;
mod sampling;
mod spread;

pub(crate) use refuse::REFUSED;
