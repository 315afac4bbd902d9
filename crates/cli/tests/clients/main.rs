//! The server as its users' programs meet it: unmodified third-party clients, and signals.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod lifecycle;
mod python;
mod server;
