//! The whole server over real sockets and a fake device: bodies, streams, refusals, and its life.

mod admin;
mod chat;
mod completions;
mod connections;
mod harness;
mod hostile;
mod leniency;
mod lifecycle;
mod native;
mod openapi;
mod refusals;
mod stop_patterns;
