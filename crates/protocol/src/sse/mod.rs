//! Server-sent events as the APIs use them: one JSON text per event, `[DONE]` at the end.

mod decode;
mod encode;

pub use decode::{Decoder, Event, EventTooLong};
pub use encode::{DONE_EVENT, PREFIX, SUFFIX, write_event};

/// The data of the event that ends a stream.
pub const DONE: &str = "[DONE]";
