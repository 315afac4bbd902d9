//! The whole server over real sockets and a fake device: bodies, streams, refusals, and its life.

mod admin;
mod bodies;
mod bounds;
mod chat;
mod completions;
mod connections;
mod foreign;
mod harness;
mod health;
mod hostile;
mod hosts;
mod isolation;
mod keys;
mod leniency;
mod lifecycle;
mod names;
mod native;
mod openapi;
mod profiles;
mod refusals;
mod refused_chats;
mod stop_patterns;
mod tls;
