//! Values of GGUF's key-value table. Texts and arrays stay in the file until somebody asks for them.

use std::ops::Range;

use super::GgufError;
use super::cursor::Cursor;

/// The type of a value, as numbered in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are the number types themselves")]
pub enum ValueKind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    Text,
    Array,
    U64,
    I64,
    F64,
}

impl ValueKind {
    fn of(number: u32, key: &str) -> Result<Self, GgufError> {
        const KINDS: [ValueKind; 13] = [
            ValueKind::U8,
            ValueKind::I8,
            ValueKind::U16,
            ValueKind::I16,
            ValueKind::U32,
            ValueKind::I32,
            ValueKind::F32,
            ValueKind::Bool,
            ValueKind::Text,
            ValueKind::Array,
            ValueKind::U64,
            ValueKind::I64,
            ValueKind::F64,
        ];
        KINDS
            .get(number as usize)
            .copied()
            .ok_or_else(|| GgufError::ValueType {
                key: key.to_owned(),
                found: number,
            })
    }

    /// Bytes of one value; for texts and arrays the fewest it can have.
    fn least_bytes(self) -> u64 {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 | Self::Text => 8,
            Self::Array => 12,
        }
    }
}

/// A value, or where in the file it lies.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Any integer type.
    Integer(i128),
    /// Any float type.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// Where the bytes of a text lie.
    Text(Range<usize>),
    /// Where the elements of an array lie.
    Array {
        /// Their type.
        kind: ValueKind,
        /// How many they are.
        count: usize,
        /// Their bytes.
        range: Range<usize>,
    },
}

/// Arrays of arrays are legal but pointless; deeper ones only serve to overflow a stack.
const DEEPEST: usize = 4;

/// Reads a value's type and the value.
pub(super) fn read(cursor: &mut Cursor<'_>, key: &str) -> Result<Value, GgufError> {
    let kind = ValueKind::of(cursor.u32("a value's type")?, key)?;
    match kind {
        ValueKind::Text => Ok(Value::Text(cursor.text("a text value")?)),
        ValueKind::Array => read_array(cursor, key, 1),
        _ => read_number(cursor, kind),
    }
}

fn read_number(cursor: &mut Cursor<'_>, kind: ValueKind) -> Result<Value, GgufError> {
    const WHAT: &str = "a value";
    Ok(match kind {
        ValueKind::U8 => Value::Integer(u8::from_le_bytes(cursor.array(WHAT)?).into()),
        ValueKind::I8 => Value::Integer(i8::from_le_bytes(cursor.array(WHAT)?).into()),
        ValueKind::U16 => Value::Integer(u16::from_le_bytes(cursor.array(WHAT)?).into()),
        ValueKind::I16 => Value::Integer(i16::from_le_bytes(cursor.array(WHAT)?).into()),
        ValueKind::U32 => Value::Integer(u32::from_le_bytes(cursor.array(WHAT)?).into()),
        ValueKind::I32 => Value::Integer(i32::from_le_bytes(cursor.array(WHAT)?).into()),
        ValueKind::U64 => Value::Integer(u64::from_le_bytes(cursor.array(WHAT)?).into()),
        ValueKind::I64 => Value::Integer(i64::from_le_bytes(cursor.array(WHAT)?).into()),
        ValueKind::F32 => Value::Float(f32::from_le_bytes(cursor.array(WHAT)?).into()),
        ValueKind::F64 => Value::Float(f64::from_le_bytes(cursor.array(WHAT)?)),
        ValueKind::Bool => Value::Bool(cursor.array::<1>(WHAT)? != [0]),
        ValueKind::Text | ValueKind::Array => unreachable!("texts and arrays are read elsewhere"),
    })
}

/// Steps over an array, so that only its place is kept.
fn read_array(cursor: &mut Cursor<'_>, key: &str, depth: usize) -> Result<Value, GgufError> {
    if depth > DEEPEST {
        return Err(GgufError::Depth {
            key: key.to_owned(),
            limit: DEEPEST,
        });
    }
    let kind = ValueKind::of(cursor.u32("an array's type")?, key)?;
    let count = cursor.u64("an array's length")?;
    let limit = cursor.remaining() as u64 / kind.least_bytes();
    if count > limit {
        return Err(GgufError::TooMany {
            what: "elements of an array",
            count,
            limit,
        });
    }
    let start = cursor.position();
    match kind {
        ValueKind::Text => {
            for _ in 0..count {
                cursor.text("a text of an array")?;
            }
        }
        ValueKind::Array => {
            for _ in 0..count {
                read_array(cursor, key, depth + 1)?;
            }
        }
        _ => {
            cursor.skip(count * kind.least_bytes(), "an array")?;
        }
    }
    Ok(Value::Array {
        kind,
        count: count as usize,
        range: start..cursor.position(),
    })
}

/// An array in the file, read element by element.
#[derive(Debug, Clone, Copy)]
pub struct Array<'a> {
    kind: ValueKind,
    count: usize,
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    pub(super) fn new(kind: ValueKind, count: usize, bytes: &'a [u8]) -> Self {
        Self { kind, count, bytes }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True when it has no elements.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Type of the elements.
    pub fn kind(&self) -> ValueKind {
        self.kind
    }

    /// The elements of an array of texts, in order; the bytes need not be UTF-8.
    pub fn texts(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (bytes, count) = (
            self.bytes,
            if self.kind == ValueKind::Text {
                self.count
            } else {
                0
            },
        );
        let mut cursor = Cursor::new(bytes);
        (0..count).map_while(move |_| cursor.text("a text").ok().map(|range| &bytes[range]))
    }

    /// The elements of an array of numbers or truth values, in order.
    pub fn numbers(&self) -> impl Iterator<Item = Value> + use<'a> {
        let numeric = !matches!(self.kind, ValueKind::Text | ValueKind::Array);
        let (kind, count) = (self.kind, if numeric { self.count } else { 0 });
        let mut cursor = Cursor::new(self.bytes);
        (0..count).map_while(move |_| read_number(&mut cursor, kind).ok())
    }
}
