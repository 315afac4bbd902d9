//! What can be wrong with a dataset.

use std::io;
use std::path::PathBuf;

/// Why there is no dataset.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// No file was named and none is fetched.
    #[error("dataset {name}: no file given; add --dataset-path FILE, {hint}")]
    NoPath {
        /// The dataset.
        name: &'static str,
        /// What the file should be.
        hint: &'static str,
    },
    /// The file is not there or cannot be read.
    #[error("cannot read dataset {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not what it should be.
    #[error("dataset {} line {line}: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, counted from one.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// An entry of the file lacks something.
    #[error("dataset {} entry {entry}: {reason}", path.display())]
    BadEntry {
        /// The file.
        path: PathBuf,
        /// The entry, counted from zero.
        entry: usize,
        /// What it lacks.
        reason: String,
    },
    /// Nothing in the file can be used.
    #[error("dataset {}: {reason}", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// Why nothing is left.
        reason: String,
    },
    /// A fixed output length below four.
    #[error("output_len too small: {length}, at least 4 is needed")]
    OutputTooSmall {
        /// The length given.
        length: u64,
    },
    /// A conversation that the chat template refuses.
    #[error("dataset {name} row {row}: {reason}")]
    Template {
        /// The dataset.
        name: &'static str,
        /// The row.
        row: usize,
        /// The template's words.
        reason: String,
    },
    /// Something that the options ask for and this dataset cannot give.
    #[error("dataset {name}: {reason}")]
    Unsupported {
        /// The dataset.
        name: &'static str,
        /// What.
        reason: String,
    },
}
