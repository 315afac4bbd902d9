//! The serving benchmark: from a command line to a printed table and a result line.

mod error;
mod options;
mod surroundings;

pub use error::ServingError;
pub use options::{Imitated, Options, help};
pub use surroundings::Surroundings;
