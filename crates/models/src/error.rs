use std::path::PathBuf;

use checkpoint::CheckpointError;
use checkpoint::gguf::GgufError;
use ops::{Beyond, DeviceError, RowsError, StreamError};

/// A description of a model that we cannot follow.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// The description is no JSON object of the expected form.
    #[error("config.json: {0}")]
    Json(#[from] serde_json::Error),
    /// GGUF metadata of the wrong form.
    #[error("GGUF metadata: {0}")]
    Gguf(#[from] GgufError),
    /// An architecture that nobody has written yet.
    #[error("architecture {name:?} is not supported; supported are {}", .supported.join(", "))]
    Architecture {
        /// What the model calls itself.
        name: String,
        /// What there is.
        supported: Vec<&'static str>,
    },
    /// A size that no model has.
    #[error("{what} is {found}: must be from 1 to {limit}")]
    Size {
        /// Which one.
        what: &'static str,
        /// Its value.
        found: usize,
        /// The largest that is taken.
        limit: usize,
    },
    /// A real number that cannot be computed with.
    #[error("{what} is {found}, which cannot be computed with")]
    Number {
        /// Which one.
        what: &'static str,
        /// Its value.
        found: f64,
    },
    /// A setting that must be there is not.
    #[error("{what} is missing")]
    Missing {
        /// Which one.
        what: &'static str,
    },
    /// A dimension that makes no sense.
    #[error("{what} is {found}: {reason}")]
    Dimension {
        /// Which one.
        what: &'static str,
        /// Its value.
        found: usize,
        /// Why it cannot be.
        reason: &'static str,
    },
    /// An option of the architecture that is not implemented.
    #[error("{what} {found:?} is not supported; supported are {supported}")]
    Option {
        /// Which one.
        what: &'static str,
        /// Its value.
        found: String,
        /// What there is.
        supported: &'static str,
    },
}

/// A model whose files could not be opened or understood.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The weights.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The operating system refused.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// A description larger than any real one.
    #[error("{} has {length} bytes, the limit is {limit}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        length: u64,
        /// The most that is read.
        limit: u64,
    },
    /// The description is not one we can follow.
    #[error("{} describes a model that cannot be served", path.display())]
    Spec {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: SpecError,
    },
}

/// A model with sizes that a device has no kernels for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{device} has no kernels for a model with {}", list(.beyond))]
pub struct TooLarge {
    /// Which device.
    pub device: String,
    /// All of these sizes.
    pub beyond: Vec<Beyond>,
}

fn list(beyond: &[Beyond]) -> String {
    let told: Vec<String> = beyond.iter().map(Beyond::to_string).collect();
    told.join("; ")
}

/// A model that could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A device without kernels for it.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// Rows that were read for the device.
    #[error(transparent)]
    Rows(RowsError),
    /// A tensor whose elements cannot be read.
    #[error("tensor {name}: {message}")]
    Tensor {
        /// Its name.
        name: String,
        /// What is wrong with it.
        message: String,
    },
    /// A tensor that does not fit the model's dimensions.
    #[error("tensor {name} has shape {found:?}, the model's dimensions ask for {expected:?}")]
    Shape {
        /// Its name.
        name: String,
        /// As the file says.
        found: Vec<usize>,
        /// As the spec says.
        expected: Vec<usize>,
    },
    /// Tensors that the model does not use: a sign that it is another model.
    #[error("the checkpoint has {count} tensors that the model does not use, the first is {first}")]
    Unused {
        /// How many.
        count: usize,
        /// One of them.
        first: String,
    },
}

impl From<StreamError> for LoadError {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Device(error) => Self::Device(error),
            StreamError::Rows(error) => Self::Rows(error),
        }
    }
}
