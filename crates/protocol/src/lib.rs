//! Wire types of the native and OpenAI APIs and their server-sent events, for both ends.
//!
//! Requests and responses are read and written here and nowhere else, so that our server, our
//! benchmark client and the router cannot drift apart. Unknown fields are ignored, nulls are taken
//! for absence; values of another type are taken where pydantic takes them, and else reported with
//! their path. There is no HTTP here, no policy, and no knowledge of what a field does.

pub mod json;
pub mod native;
pub mod openai;
pub mod sse;
