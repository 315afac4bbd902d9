//! Wire types of the native and OpenAI APIs, server-sent events.
