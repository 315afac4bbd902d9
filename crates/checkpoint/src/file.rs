//! The bytes of a file: mapped, or given.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use crate::{CheckpointError, TensorInfo};

/// The bytes of a file and the name to use for it in messages.
#[derive(Debug)]
pub(crate) struct FileBytes {
    path: PathBuf,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    Mapped(Mmap, File),
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
            bytes: Bytes::Mapped(map, file),
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
            Bytes::Mapped(map, _) => map,
            Bytes::Given(bytes) => bytes,
        }
    }

    /// Copies a tensor's bytes from `offset` on by reading, which is faster than touching a mapping for the first time.
    pub(crate) fn read(
        &self,
        tensor: &TensorInfo,
        offset: usize,
        out: &mut [u8],
    ) -> Result<(), CheckpointError> {
        let start = tensor.range.start + offset;
        match &self.bytes {
            Bytes::Mapped(_, file) => {
                file.read_exact_at(out, start as u64)
                    .map_err(|source| CheckpointError::Tensor {
                        path: self.path.clone(),
                        name: tensor.name.clone(),
                        source,
                    })
            }
            Bytes::Given(bytes) => {
                out.copy_from_slice(&bytes[start..start + out.len()]);
                Ok(())
            }
        }
    }
}
