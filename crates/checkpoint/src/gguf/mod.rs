//! GGUF: one file with everything in it. Versions 2 and 3, little endian.

pub mod blocks;
mod cursor;
mod error;
mod header;
mod metadata;
pub mod names;
mod value;

use std::path::Path;

pub use error::GgufError;
pub use header::{Header, StoredTensor};
pub use metadata::{HyperParameters, Metadata, RopeScaling, Vocabulary};
pub use value::{Array, Value, ValueKind};

use crate::file::FileBytes;
use crate::source::TensorTable;
use crate::{CheckpointError, TensorInfo, WeightSource};

/// The first four bytes of every GGUF file.
pub const MAGIC: &[u8] = b"GGUF";

/// An opened GGUF file: its header read and checked, its weights where they lie.
#[derive(Debug)]
pub struct GgufSource {
    file: FileBytes,
    header: Header,
    table: TensorTable,
}

impl GgufSource {
    /// Maps a file and reads its header.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        Self::read(FileBytes::map(path)?)
    }

    /// Reads a file that is already in memory; `name` is used in messages.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, CheckpointError> {
        Self::read(FileBytes::given(name, bytes))
    }

    fn read(file: FileBytes) -> Result<Self, CheckpointError> {
        match read_tables(file.bytes()) {
            Ok((header, table)) => Ok(Self {
                file,
                header,
                table,
            }),
            Err(source) => Err(CheckpointError::Gguf {
                path: file.path().to_owned(),
                source,
            }),
        }
    }

    /// The key-values.
    pub fn metadata(&self) -> Metadata<'_> {
        Metadata::new(&self.header, self.file.bytes())
    }

    /// The file's path, or the name it was given.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Puts the file's path before a complaint about its metadata.
    pub fn blame(&self, source: GgufError) -> CheckpointError {
        CheckpointError::Gguf {
            path: self.file.path().to_owned(),
            source,
        }
    }
}

fn read_tables(bytes: &[u8]) -> Result<(Header, TensorTable), GgufError> {
    let header = Header::parse(bytes)?;
    let metadata = Metadata::new(&header, bytes);
    let renaming = names::Renaming::of(&metadata)?;
    let architecture = metadata.text("general.architecture")?.unwrap_or_default();
    let mut table = TensorTable::default();
    for stored in &header.tensors {
        let tensor = TensorInfo {
            name: names::hugging_face(&stored.name, architecture),
            shape: stored.shape.clone(),
            encoding: stored.encoding,
            row_order: renaming.row_order(stored)?,
            file: 0,
            range: stored.range.clone(),
        };
        let name = tensor.name.clone();
        table.add(tensor).map_err(|_| GgufError::Duplicate {
            what: "tensor",
            name,
        })?;
    }
    Ok((header, table))
}

impl WeightSource for GgufSource {
    fn tensors(&self) -> &[TensorInfo] {
        self.table.tensors()
    }

    fn find(&self, name: &str) -> Option<&TensorInfo> {
        self.table.find(name)
    }

    fn bytes(&self, name: &str) -> Result<&[u8], CheckpointError> {
        Ok(&self.file.bytes()[self.table.expect(name)?.range.clone()])
    }

    fn read(
        &self,
        tensor: &TensorInfo,
        offset: usize,
        out: &mut [u8],
    ) -> Result<(), CheckpointError> {
        self.file.read(tensor, offset, out)
    }
}
