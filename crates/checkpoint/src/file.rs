//! The bytes of a file: mapped, or given.

use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use crate::CheckpointError;

/// The bytes of a file and the name to use for it in messages.
#[derive(Debug)]
pub(crate) struct FileBytes {
    path: PathBuf,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    Mapped(Mmap),
    Given(Vec<u8>),
}

impl FileBytes {
    /// Maps a regular file. Pipes and devices are refused before opening, because opening one may wait for ever.
    pub(crate) fn map(path: &Path) -> Result<Self, CheckpointError> {
        let io = |source| CheckpointError::Io {
            path: path.to_owned(),
            source,
        };
        if !std::fs::metadata(path).map_err(io)?.is_file() {
            return Err(CheckpointError::NotAFile {
                path: path.to_owned(),
            });
        }
        let file = File::open(path).map_err(io)?;
        #[expect(unsafe_code, reason = "mapping is how weights are read without copies")]
        // SAFETY: the mapping is read-only and private to us. As for every program that maps weights, whoever shortens
        // the file while it is in use ends the process; files in the model store are never changed in place.
        let map = unsafe { Mmap::map(&file) }.map_err(io)?;
        Ok(Self {
            path: path.to_owned(),
            bytes: Bytes::Mapped(map),
        })
    }

    /// Bytes that are already in memory, under the name used in messages.
    pub(crate) fn given(name: &str, bytes: Vec<u8>) -> Self {
        Self {
            path: PathBuf::from(name),
            bytes: Bytes::Given(bytes),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Mapped(map) => map,
            Bytes::Given(bytes) => bytes,
        }
    }
}
