//! What can be wrong with a checkpoint.

use std::path::PathBuf;

use crate::gguf::GgufError;
use crate::safetensors::SafetensorsError;

/// Why a checkpoint cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The operating system refused.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// A pipe, a device or a folder stands where a file was expected.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// The thing that is no file.
        path: PathBuf,
    },
    /// The file begins like no format that is read.
    #[error("{} is no model: it is neither a GGUF nor a safetensors file", path.display())]
    NotAModel {
        /// The file.
        path: PathBuf,
    },
    /// The folder has no weights in a known format.
    #[error("{} holds neither safetensors nor GGUF weights", path.display())]
    NoWeights {
        /// The folder.
        path: PathBuf,
    },
    /// The folder has several candidates and nothing says which is meant.
    #[error("{} holds several models, name one of them: {}", path.display(), names.join(", "))]
    Ambiguous {
        /// The folder.
        path: PathBuf,
        /// The files that could be meant.
        names: Vec<String>,
    },
    /// The file breaks the rules of GGUF.
    #[error("{} is not a usable GGUF file", path.display())]
    Gguf {
        /// The file.
        path: PathBuf,
        /// The broken rule.
        source: GgufError,
    },
    /// The file or its index breaks the rules of safetensors.
    #[error("{} is not a usable safetensors file", path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// The broken rule.
        source: SafetensorsError,
    },
    /// A tensor was asked for that the checkpoint does not have.
    #[error("the checkpoint has no tensor named {name}")]
    NoTensor {
        /// The name asked for.
        name: String,
    },
    /// The operating system refused, or the file has become shorter.
    #[error("cannot read tensor {name} in {}", path.display())]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// What it said.
        source: std::io::Error,
    },
    /// A weight or a block's scale is infinite or not a number.
    #[error("tensor {name} has a weight or scale that is not finite, at element {element}")]
    NotFinite {
        /// The tensor.
        name: String,
        /// The first such element, or the first of its block.
        element: usize,
    },
}
