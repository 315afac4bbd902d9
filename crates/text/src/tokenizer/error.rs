//! What can be wrong with a tokenizer, its files, or a text given to it.

use std::path::PathBuf;

use crate::caught::caught;

/// Why a tokenizer could not be made, or could not encode a text.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// A file of the model folder could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A JSON file is not what it should be.
    #[error("{file} is malformed: {reason}")]
    Malformed {
        /// The name of the file.
        file: &'static str,
        /// What is wrong and where.
        reason: String,
    },
    /// A vocabulary without a single token.
    #[error("the vocabulary is empty")]
    EmptyVocabulary,
    /// An id that no real vocabulary reaches.
    #[error("token id {id} is too large, the limit is {limit}")]
    IdTooLarge {
        /// The id.
        id: usize,
        /// Ids must be below this.
        limit: usize,
    },
    /// The texts of all tokens together exceed four gigabytes.
    #[error("the texts of the vocabulary are longer than 4 GiB together")]
    VocabularyTooLong,
    /// A model type that is not read.
    #[error("tokenizer model {name:?} is not supported, known are {known}")]
    UnknownModel {
        /// What the file says.
        name: String,
        /// What may be said.
        known: &'static str,
    },
    /// A GGUF pre-tokenizer that is not known.
    #[error("pre-tokenizer {name:?} is not known, known are {known}")]
    UnknownPreTokenizer {
        /// What the file says.
        name: String,
        /// What may be said.
        known: String,
    },
    /// Two parts of a GGUF vocabulary that must be of one length are not.
    #[error("the vocabulary has {tokens} tokens but {count} {part}")]
    LengthMismatch {
        /// Number of tokens.
        tokens: usize,
        /// Number of entries in the other part.
        count: usize,
        /// What the other part is called.
        part: &'static str,
    },
    /// A merge rule that cannot be applied.
    #[error("merge {index} ({merge:?}) {reason}")]
    BadMerge {
        /// Its position in the list.
        index: usize,
        /// Its text.
        merge: String,
        /// Why not.
        reason: &'static str,
    },
    /// A named special token is not in the vocabulary.
    #[error("{role} token id {id} is outside the vocabulary of {tokens} tokens")]
    SpecialOutside {
        /// What the token is for.
        role: &'static str,
        /// Its id.
        id: u32,
        /// Number of tokens.
        tokens: usize,
    },
    /// The tokenizer library refused the file or the text.
    #[error("tokenizer: {0}")]
    Library(String),
    /// The tokenizer library broke on this file or text.
    #[error("the tokenizer library broke: {0}")]
    LibraryBroke(String),
}

/// Runs a piece of the tokenizer library. Files and texts come from outside, and its regular
/// expressions give up on some texts by panicking.
pub(super) fn guarded<T>(
    work: impl FnOnce() -> Result<T, Box<dyn std::error::Error + Send + Sync>>,
) -> Result<T, TokenizerError> {
    caught(work)
        .map_err(TokenizerError::LibraryBroke)?
        .map_err(|error| TokenizerError::Library(error.to_string()))
}
