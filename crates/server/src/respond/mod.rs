//! What sequences produced to what clients read.

pub(crate) mod chat;
pub(crate) mod completions;
mod log_probs;
pub(crate) mod message;
pub(crate) mod native;
pub(crate) mod thought_count;
mod usage;
