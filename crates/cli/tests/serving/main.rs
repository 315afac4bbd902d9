//! The server as a process, as people and programs meet it: command lines, signals, unmodified third-party clients.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod command_line;
mod lifecycle;
mod process;
mod python;
mod templates;
