//! One load on one server: datasets, paces, the client, records and the figures made of them.
//!
//! It measures any server that speaks a known protocol and knows nothing of our own engine: servers
//! are addresses here. It starts no server and compares no runs; that is the business of `lab`.

pub mod client;
pub mod clock;
pub mod dataset;
pub mod gsm8k;
pub mod layout;
pub mod load;
pub mod measure;
pub mod one_batch;
pub mod open_files;
mod os;
pub mod pace;
pub mod page;
mod put;
mod python_text;
pub mod random;
pub mod record;
pub mod release;
pub mod result;
pub mod serving;
pub mod stop;
pub mod vocabulary;

pub use os::{ProcessUsage, process_usage};
