//! Why a run ended early.

use crate::client::{ControlError, TrustError, UrlError};
use crate::dataset::DatasetError;
use crate::vocabulary::VocabularyError;
use flags::FlagError;
use std::io;
use std::path::PathBuf;

/// Why there is no result, or not all of it.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// The command line does not follow the table.
    #[error("{0}")]
    Flags(#[from] FlagError),
    /// Options that do not go together, or a value out of range.
    #[error("{0}")]
    Usage(String),
    /// Options that the reference refuses once it runs.
    #[error("{0}")]
    Refused(String),
    /// Everything there is to say was said.
    #[error("ended with code {0}")]
    Said(u8),
    /// The server's address cannot be used.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The authorities to trust cannot be used.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// A question to the server had no answer.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// No tokenizer.
    #[error(transparent)]
    Vocabulary(#[from] VocabularyError),
    /// No dataset.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The client's threads or sockets could not be had.
    #[error("cannot start the client: {0}")]
    Client(io::Error),
    /// No warm-up request succeeded.
    #[error(
        "Warmup failed - Please make sure benchmark arguments are correctly specified. Error: {0}"
    )]
    WarmUp(String),
    /// The server refused to empty its cache.
    #[error("cannot flush the cache at {url}: {reason}")]
    Flush {
        /// What was asked.
        url: String,
        /// What it said.
        reason: String,
    },
    /// A result could not be written; the figures were printed before.
    #[error("cannot write {}: {source}", path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A run to be resumed does not fit this one.
    #[error("cannot resume from {}: {reason}", path.display())]
    Resume {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
}

impl ServingError {
    /// What the process returns.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Flags(error) => error.exit_code(),
            Self::Usage(_) => 2,
            Self::Said(code) => *code,
            _ => 1,
        }
    }
}
