//! The header of a GGUF file: key-values and the tensor table, each number checked against the bytes there are.

use std::collections::HashMap;
use std::ops::Range;

use tensor::DType;

use super::cursor::Cursor;
use super::value::{self, Value};
use super::{GgufError, MAGIC};
use crate::{BlockFormat, Encoding};

/// Far above any real file, far below what would hurt.
const MOST_KEYS: u64 = 65_536;
const MOST_TENSORS: u64 = 262_144;
const MOST_DIMENSIONS: u32 = 4;
const DEFAULT_ALIGNMENT: u64 = 32;

/// What stands before the weights.
#[derive(Debug)]
pub struct Header {
    /// 2 or 3.
    pub version: u32,
    /// Where tensors may begin: multiples of this.
    pub alignment: u64,
    /// Keys in the order of the file.
    pub keys: Vec<String>,
    /// Tensors in the order of the file.
    pub tensors: Vec<StoredTensor>,
    values: HashMap<String, Value>,
}

/// A tensor as the file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTensor {
    /// Its name in the file.
    pub name: String,
    /// Outermost dimension first (the file has it the other way round).
    pub shape: Vec<usize>,
    /// How its elements are written.
    pub encoding: Encoding,
    /// Its bytes in the file.
    pub range: Range<usize>,
}

impl Header {
    /// Reads and checks the header of a whole file.
    pub fn parse(bytes: &[u8]) -> Result<Self, GgufError> {
        if !bytes.starts_with(MAGIC) {
            return Err(GgufError::Magic);
        }
        let mut cursor = Cursor::new(bytes);
        cursor.skip(MAGIC.len() as u64, "the magic")?;
        let version = cursor.u32("the version")?;
        if !matches!(version, 2 | 3) {
            return Err(GgufError::Version { found: version });
        }
        let tensor_count = cursor.u64("the number of tensors")?;
        let key_count = cursor.u64("the number of keys")?;
        limit("tensors", tensor_count, MOST_TENSORS)?;
        limit("keys", key_count, MOST_KEYS)?;
        let (keys, values) = read_keys(&mut cursor, key_count)?;
        let alignment = alignment(&values)?;
        if let Some(Value::Integer(count)) = values.get("split.count")
            && *count > 1
        {
            return Err(GgufError::Split {
                count: u64::try_from(*count).unwrap_or(u64::MAX),
            });
        }
        let tensors = read_tensors(&mut cursor, tensor_count, alignment, bytes.len())?;
        Ok(Self {
            version,
            alignment,
            keys,
            tensors,
            values,
        })
    }

    /// The value of a key.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }
}

fn limit(what: &'static str, count: u64, limit: u64) -> Result<(), GgufError> {
    if count > limit {
        return Err(GgufError::TooMany { what, count, limit });
    }
    Ok(())
}

fn read_keys(
    cursor: &mut Cursor<'_>,
    count: u64,
) -> Result<(Vec<String>, HashMap<String, Value>), GgufError> {
    let mut keys = Vec::new();
    let mut values = HashMap::new();
    for _ in 0..count {
        let key = cursor.name("a key")?;
        let value = value::read(cursor, key)?;
        if values.insert(key.to_owned(), value).is_some() {
            return Err(GgufError::Duplicate {
                what: "key",
                name: key.to_owned(),
            });
        }
        keys.push(key.to_owned());
    }
    Ok((keys, values))
}

fn alignment(values: &HashMap<String, Value>) -> Result<u64, GgufError> {
    let found = match values.get("general.alignment") {
        None => return Ok(DEFAULT_ALIGNMENT),
        Some(Value::Integer(found)) => u64::try_from(*found).unwrap_or(0),
        Some(_) => 0,
    };
    if found.is_power_of_two() {
        Ok(found)
    } else {
        Err(GgufError::Alignment { found })
    }
}

/// A row of the tensor table before its place in the file is known.
struct TableRow {
    name: String,
    shape: Vec<usize>,
    encoding: Encoding,
    bytes: usize,
    offset: u64,
}

fn read_tensors(
    cursor: &mut Cursor<'_>,
    count: u64,
    alignment: u64,
    length: usize,
) -> Result<Vec<StoredTensor>, GgufError> {
    let mut rows = Vec::new();
    for _ in 0..count {
        rows.push(read_row(cursor)?);
    }
    let data = (cursor.position() as u64).checked_next_multiple_of(alignment);
    let tensors: Result<Vec<_>, _> = rows
        .into_iter()
        .map(|row| {
            let TableRow {
                name,
                shape,
                encoding,
                bytes,
                offset,
            } = row;
            if !offset.is_multiple_of(alignment) {
                return Err(GgufError::Misaligned {
                    name,
                    offset,
                    alignment,
                });
            }
            let start = data
                .and_then(|data| data.checked_add(offset))
                .unwrap_or(u64::MAX);
            match start.checked_add(bytes as u64) {
                Some(end) if end <= length as u64 => Ok(StoredTensor {
                    name,
                    shape,
                    encoding,
                    range: start as usize..end as usize,
                }),
                _ => Err(GgufError::PastEnd {
                    name,
                    bytes: bytes as u64,
                    offset: start,
                    length,
                }),
            }
        })
        .collect();
    let tensors = tensors?;
    check_apart(&tensors)?;
    Ok(tensors)
}

/// Refuses tensors that share bytes: one of them would be read as what it is not.
fn check_apart(tensors: &[StoredTensor]) -> Result<(), GgufError> {
    let mut by_place: Vec<&StoredTensor> = tensors.iter().collect();
    by_place.sort_by_key(|tensor| tensor.range.start);
    for (first, second) in by_place.iter().zip(by_place.iter().skip(1)) {
        if second.range.start < first.range.end {
            return Err(GgufError::Overlap {
                first: first.name.clone(),
                second: second.name.clone(),
                offset: second.range.start,
            });
        }
    }
    Ok(())
}

fn read_row(cursor: &mut Cursor<'_>) -> Result<TableRow, GgufError> {
    let name = cursor.name("a tensor's name")?.to_owned();
    let dimensions = cursor.u32("a tensor's dimensions")?;
    limit(
        "dimensions of a tensor",
        dimensions.into(),
        MOST_DIMENSIONS.into(),
    )?;
    let mut stored_shape = Vec::new();
    for _ in 0..dimensions {
        stored_shape.push(cursor.u64("a tensor's dimensions")?);
    }
    stored_shape.reverse();
    let found = cursor.u32("a tensor's format")?;
    let encoding = encoding(found).ok_or_else(|| GgufError::Encoding {
        name: name.clone(),
        found,
    })?;
    let offset = cursor.u64("a tensor's offset")?;

    let shape: Option<Vec<usize>> = stored_shape
        .iter()
        .map(|&n| usize::try_from(n).ok().filter(|&n| n > 0))
        .collect();
    match shape.and_then(|shape| encoding.bytes_of(&shape).map(|bytes| (shape, bytes))) {
        Some((shape, bytes)) => Ok(TableRow {
            name,
            shape,
            encoding,
            bytes,
            offset,
        }),
        None => Err(GgufError::Shape {
            name,
            shape: stored_shape,
            encoding: encoding.name(),
        }),
    }
}

/// The number formats we read, by ggml's numbers.
fn encoding(number: u32) -> Option<Encoding> {
    Some(match number {
        0 => Encoding::Plain(DType::F32),
        1 => Encoding::Plain(DType::F16),
        2 => Encoding::Block(BlockFormat::Q4_0),
        3 => Encoding::Block(BlockFormat::Q4_1),
        6 => Encoding::Block(BlockFormat::Q5_0),
        7 => Encoding::Block(BlockFormat::Q5_1),
        8 => Encoding::Block(BlockFormat::Q8_0),
        12 => Encoding::Block(BlockFormat::Q4_K),
        13 => Encoding::Block(BlockFormat::Q5_K),
        14 => Encoding::Block(BlockFormat::Q6_K),
        24 => Encoding::Plain(DType::I8),
        26 => Encoding::Plain(DType::I32),
        27 => Encoding::Plain(DType::I64),
        30 => Encoding::Plain(DType::BF16),
        _ => return None,
    })
}
