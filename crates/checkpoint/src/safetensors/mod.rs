//! Safetensors: one file, or several with an index.

mod index;

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::Dtype as FileDtype;
use safetensors::tensor::Metadata;
use tensor::DType;

pub use index::INDEX_NAME;

use crate::file::FileBytes;
use crate::source::TensorTable;
use crate::{CheckpointError, Encoding, RowOrder, TensorInfo, WeightSource};

/// Why bytes are not a safetensors file, or files do not fit their index.
#[derive(Debug, thiserror::Error)]
pub enum SafetensorsError {
    /// The file ends before its header does.
    #[error("it has {length} bytes, its header claims {claimed}")]
    HeaderPastEnd {
        /// Bytes there are.
        length: usize,
        /// Bytes of the header.
        claimed: u64,
    },
    /// A header that no such file has.
    #[error("its header claims {claimed} bytes, the limit is {limit}")]
    HeaderTooLarge {
        /// Bytes of the header.
        claimed: u64,
        /// The most that is read.
        limit: u64,
    },
    /// The header is not what it should be: not JSON, overlapping or missing ranges, wrong sizes.
    #[error("its header is broken")]
    Header(#[source] serde_json::Error),
    /// The tensors do not fill the file.
    #[error("its tensors end after {claimed} bytes of data, the file has {length}")]
    DataLength {
        /// Where the last tensor ends.
        claimed: usize,
        /// Bytes after the header.
        length: usize,
    },
    /// An element type that is not read.
    #[error("tensor {name} has element type {found}, which is not read")]
    ElementType {
        /// The tensor.
        name: String,
        /// The type.
        found: String,
    },
    /// The index is not what it should be.
    #[error("the index is broken")]
    Index(#[source] serde_json::Error),
    /// The index is larger than any real one.
    #[error("the index has {length} bytes, the limit is {limit}")]
    IndexTooLarge {
        /// Its size.
        length: u64,
        /// The most that is read.
        limit: u64,
    },
    /// The index names a file elsewhere, or one that cannot hold tensors.
    #[error("the index names {name:?}, which is not the name of a .safetensors file beside it")]
    ShardName {
        /// What it names.
        name: String,
    },
    /// A file lacks a tensor that the index promises.
    #[error("the index promises tensor {tensor} in {shard}, which does not have it")]
    NotInShard {
        /// The tensor.
        tensor: String,
        /// The file.
        shard: String,
    },
    /// Two files have a tensor of the same name.
    #[error("tensor {tensor} is both in {first} and in {second}")]
    TwoShards {
        /// The tensor.
        tensor: String,
        /// The file it was first seen in.
        first: String,
        /// The other file.
        second: String,
    },
}

/// Opened safetensors files: headers read and checked, weights where they lie.
#[derive(Debug)]
pub struct SafetensorsSource {
    files: Vec<FileBytes>,
    table: TensorTable,
}

impl SafetensorsSource {
    /// Maps one file.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        Self::read(vec![FileBytes::map(path)?])
    }

    /// Maps the files that an index names; they must lie beside it.
    pub fn open_index(path: &Path) -> Result<Self, CheckpointError> {
        let blame = |source| CheckpointError::Safetensors {
            path: path.to_owned(),
            source,
        };
        let by_shard = index::read(path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let files: Result<Vec<_>, _> = by_shard
            .keys()
            .map(|shard| FileBytes::map(&folder.join(shard)))
            .collect();
        let source = Self::read(files?)?;
        check_against_index(&source, &by_shard).map_err(blame)?;
        Ok(source)
    }

    /// Reads a file that is already in memory; `name` is used in messages.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, CheckpointError> {
        Self::read(vec![FileBytes::given(name, bytes)])
    }

    fn read(files: Vec<FileBytes>) -> Result<Self, CheckpointError> {
        let mut table = TensorTable::default();
        for (at, file) in files.iter().enumerate() {
            let blame = |source| CheckpointError::Safetensors {
                path: file.path().to_owned(),
                source,
            };
            for tensor in read_header(file.bytes(), at).map_err(blame)? {
                let name = tensor.name.clone();
                table.add(tensor).map_err(|earlier| {
                    blame(SafetensorsError::TwoShards {
                        tensor: name,
                        first: files[earlier].path().display().to_string(),
                        second: file.path().display().to_string(),
                    })
                })?;
            }
        }
        Ok(Self { files, table })
    }
}

impl WeightSource for SafetensorsSource {
    fn tensors(&self) -> &[TensorInfo] {
        self.table.tensors()
    }

    fn find(&self, name: &str) -> Option<&TensorInfo> {
        self.table.find(name)
    }

    fn bytes(&self, name: &str) -> Result<&[u8], CheckpointError> {
        let tensor = self.table.expect(name)?;
        Ok(&self.files[tensor.file].bytes()[tensor.range.clone()])
    }

    fn read(
        &self,
        tensor: &TensorInfo,
        offset: usize,
        out: &mut [u8],
    ) -> Result<(), CheckpointError> {
        self.files[tensor.file].read(tensor, offset, out)
    }
}

/// Files are mapped in the order of the index's keys, so that a tensor's file number is its shard's place there.
fn check_against_index(
    source: &SafetensorsSource,
    by_shard: &BTreeMap<String, Vec<String>>,
) -> Result<(), SafetensorsError> {
    for (file, (shard, tensors)) in by_shard.iter().enumerate() {
        for tensor in tensors {
            if source.find(tensor).is_none_or(|found| found.file != file) {
                let (tensor, shard) = (tensor.clone(), shard.clone());
                return Err(SafetensorsError::NotInShard { tensor, shard });
            }
        }
    }
    Ok(())
}

/// Reads the header: 8 bytes of length, then JSON. The sizes and that the ranges follow each other without gaps are
/// checked by the `safetensors` crate; that they end where the file does is checked here, where sums cannot overflow.
fn read_header(bytes: &[u8], file: usize) -> Result<Vec<TensorInfo>, SafetensorsError> {
    const LIMIT: u64 = 100_000_000;
    const LENGTH_BYTES: usize = 8;
    let length = bytes.len();
    let Some((claimed, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
        return Err(SafetensorsError::HeaderPastEnd {
            length,
            claimed: LENGTH_BYTES as u64,
        });
    };
    let claimed = u64::from_le_bytes(*claimed);
    if claimed > LIMIT {
        return Err(SafetensorsError::HeaderTooLarge {
            claimed,
            limit: LIMIT,
        });
    }
    let Some((header, data)) = rest.split_at_checked(claimed as usize) else {
        return Err(SafetensorsError::HeaderPastEnd { length, claimed });
    };
    let metadata: Metadata = serde_json::from_slice(header).map_err(SafetensorsError::Header)?;
    if metadata.data_len() != data.len() {
        return Err(SafetensorsError::DataLength {
            claimed: metadata.data_len(),
            length: data.len(),
        });
    }
    let start = length - data.len();
    let described = metadata.offset_keys().into_iter().filter_map(|name| {
        let info = metadata.info(&name)?;
        Some((name, info))
    });
    described
        .map(|(name, info)| match dtype(info.dtype) {
            Some(dtype) => Ok(TensorInfo {
                name,
                shape: info.shape.clone(),
                encoding: Encoding::Plain(dtype),
                row_order: RowOrder::Plain,
                file,
                range: start + info.data_offsets.0..start + info.data_offsets.1,
            }),
            None => Err(SafetensorsError::ElementType {
                name,
                found: format!("{:?}", info.dtype),
            }),
        })
        .collect()
}

fn dtype(found: FileDtype) -> Option<DType> {
    Some(match found {
        FileDtype::F32 => DType::F32,
        FileDtype::F16 => DType::F16,
        FileDtype::BF16 => DType::BF16,
        FileDtype::F8_E4M3 => DType::F8E4M3,
        FileDtype::I8 => DType::I8,
        FileDtype::U8 | FileDtype::BOOL => DType::U8,
        FileDtype::U16 => DType::U16,
        FileDtype::I32 => DType::I32,
        FileDtype::U32 => DType::U32,
        FileDtype::I64 => DType::I64,
        FileDtype::U64 => DType::U64,
        _ => return None,
    })
}
