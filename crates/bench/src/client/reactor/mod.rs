//! Many connections on few threads.
//!
//! Each [`Worker`] is one thread with one poll set. A readable socket is read at once into a buffer
//! the thread owns, dated by the kernel's stamp of the arrival, and taken apart in place; what
//! remains of an answer is a few bytes per token. How late the thread was is measured on every read.

mod connection;
mod endings;
mod event_loop;
mod exchanges;
mod worker;

pub(super) use worker::{Job, Note, Worker};
