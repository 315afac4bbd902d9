//! HTTP: the native and OpenAI endpoints over an engine.
