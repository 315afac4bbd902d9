//! What can go wrong on the way of a model to this machine, each with what to do about it.

use std::io;
use std::path::PathBuf;

/// A model could not be brought here.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// A path was meant and nothing is there.
    #[error("no such file or folder: {}", path.display())]
    NoSuchPath {
        /// As given.
        path: PathBuf,
    },
    /// A folder without anything that looks like a model.
    #[error(
        "{} is not a model folder: it has neither a config.json nor a .gguf file", path.display()
    )]
    NotAModel {
        /// The folder.
        path: PathBuf,
    },
    /// Several GGUF files and none chosen.
    #[error("{place} holds several .gguf files, choose one as {example}: {}", files.join(", "))]
    ChooseOne {
        /// The folder or the hub id.
        place: String,
        /// How to say which.
        example: String,
        /// The candidates.
        files: Vec<String>,
    },
    /// The chosen file is not among the model's files.
    #[error("{id} has no file {file}; it has {}", files.join(", "))]
    NoSuchFile {
        /// The hub id.
        id: String,
        /// What was chosen.
        file: String,
        /// What there is.
        files: Vec<String>,
    },
    /// Neither a path, nor a known name, nor a hub id.
    #[error("'{text}' is neither a path nor a model name; a hub id looks like organisation/name")]
    BadReference {
        /// As given.
        text: String,
    },
    /// The repository has nothing to serve.
    #[error("{id} holds neither safetensors nor .gguf weights")]
    NoWeights {
        /// The hub id.
        id: String,
    },
    /// No Python interpreter.
    #[error("no python interpreter found (tried {}); {advice}", tried.join(", "))]
    NoPython {
        /// The names tried.
        tried: Vec<String>,
        /// What to do.
        advice: String,
    },
    /// A Python interpreter without pip.
    #[error("{python} has no pip module (packages that only this user has do not count); {advice}")]
    NoPip {
        /// The interpreter.
        python: String,
        /// What to do.
        advice: String,
    },
    /// pip could not fetch the package.
    #[error("pip could not download {package}: {reason}; {advice}")]
    PipFailed {
        /// Name and version.
        package: String,
        /// The last line pip said.
        reason: String,
        /// What to do.
        advice: String,
    },
    /// The package does not hold what the pin says.
    #[error("package {package} is not as pinned: {reason}")]
    BadPackage {
        /// Name and version.
        package: String,
        /// What differs.
        reason: String,
    },
    /// A file arrived with other bytes than announced.
    #[error("{file} has hash {found}, expected {expected}: it was spoilt on the way or on disk")]
    HashMismatch {
        /// The file.
        file: String,
        /// The hash it should have.
        expected: String,
        /// The hash it has.
        found: String,
    },
    /// A file arrived with another length than announced.
    #[error("{file} has {found} bytes, expected {expected}: it was spoilt on the way or on disk")]
    SizeMismatch {
        /// The file.
        file: String,
        /// The length it should have.
        expected: u64,
        /// The length it has.
        found: u64,
    },
    /// The hub refuses without a token.
    #[error(
        "{id} is private, gated or does not exist (HTTP {status}): check the name, accept the model's \
         terms on the hub, and set HF_TOKEN to a token that may read it"
    )]
    Refused {
        /// The hub id.
        id: String,
        /// 401 or 403.
        status: u16,
    },
    /// The hub does not know it.
    #[error("{id} does not exist on the hub at revision {revision} (HTTP 404)")]
    NotFound {
        /// The hub id.
        id: String,
        /// The revision asked for.
        revision: String,
    },
    /// The hub does not answer.
    #[error(
        "{id} is no file or folder here, and {endpoint} cannot be reached for it: {reason}; without \
         a network, put the model's files into a folder and give that folder as --model-path, or set \
         HF_ENDPOINT to a mirror"
    )]
    Unreachable {
        /// The hub id.
        id: String,
        /// The hub's address.
        endpoint: String,
        /// What the transport said.
        reason: String,
    },
    /// The hub was not asked, on the user's wish, and the model is not here.
    #[error(
        "{id} is not in the store and HF_HUB_OFFLINE forbids to ask the hub; unset it, or give a \
         folder with the model's files as --model-path"
    )]
    Offline {
        /// The hub id.
        id: String,
    },
    /// The hub said something that makes no sense.
    #[error("{endpoint} answered for {id} with {reason}")]
    BadAnswer {
        /// The hub id.
        id: String,
        /// The hub's address.
        endpoint: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The disk is full.
    #[error(
        "no space left on the disk of {}: make room there, or choose another place with --model-store \
         (PEREGRINE_MODELS) and, for the hub's cache, --download-dir (HF_HOME)", path.display()
    )]
    DiskFull {
        /// What was written.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl HubError {
    /// Turns an input/output error on a path into one with its circumstances.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { path },
            _ => Self::Io {
                action,
                path,
                source,
            },
        }
    }
}
