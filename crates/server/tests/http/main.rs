//! The whole server over real sockets and a fake device: bodies, streams, refusals, and its life.

mod admin;
mod bodies;
mod chat;
mod completions;
mod connections;
mod harness;
mod health;
mod hostile;
mod hosts;
mod keys;
mod leniency;
mod lifecycle;
mod native;
mod openapi;
mod profiles;
mod refusals;
mod stop_patterns;
mod tls;
