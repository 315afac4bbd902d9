//! Weights: as files hold them, and as a device holds them.

use std::any::Any;
use std::borrow::Cow;

use tensor::{Buffer, DType};

use crate::float8;

/// How the numbers of a weight are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightFormat {
    /// One element after the other.
    Plain(DType),
    /// Groups along a row: value = scale × quant + minimum, quant an unsigned integer of `bits` bits.
    Affine {
        /// Bits of a quant: 4 or 8.
        bits: u8,
        /// Elements that share a scale and a minimum.
        group: u16,
    },
    /// Floats of eight bits (e4m3) times scales over blocks of the matrix.
    Float8 {
        /// Elements of a row that share a scale; zero: all of them.
        group: u32,
    },
}

impl WeightFormat {
    /// Bytes of so many numbers, without scales and minimums.
    pub fn bytes_of(self, numbers: usize) -> usize {
        match self {
            Self::Plain(dtype) => numbers * dtype.size(),
            Self::Affine { bits, .. } => (numbers * usize::from(bits)).div_ceil(8),
            Self::Float8 { .. } => numbers,
        }
    }
}

impl std::fmt::Display for WeightFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Plain(dtype) => write!(f, "{dtype}"),
            Self::Affine { bits, group } => write!(f, "{bits}-bit groups of {group}"),
            Self::Float8 { group: 0 } => write!(f, "8-bit floats with a scale a row"),
            Self::Float8 { group } => write!(f, "8-bit floats in groups of {group}"),
        }
    }
}

/// A quantised matrix as a checkpoint yields it: one byte a quant, whatever `bits` says.
#[derive(Clone, Debug)]
pub struct AffineRows {
    /// Bits that the largest quant needs: 4 or 8 (5- and 6-bit formats count as 8).
    pub bits: u8,
    /// Elements that share a scale and a minimum: 16 or 32.
    pub group: usize,
    /// `rows × cols` quants, row by row.
    pub quants: Vec<u8>,
    /// `rows × cols / group` scales.
    pub scales: Vec<f32>,
    /// `rows × cols / group` minimums.
    pub minimums: Vec<f32>,
}

/// A matrix of e4m3 codes and a grid of scales: an element is its code's number times the scale of its block.
#[derive(Clone, Debug)]
pub struct Float8Rows<'a> {
    /// `rows × cols` codes, row by row, none of them [not a number](float8::is_nan).
    pub codes: Cow<'a, [u8]>,
    /// Rows and columns of a block; the last ones may be cut off by the matrix.
    pub block: [usize; 2],
    /// One scale a block, a row of blocks after the other.
    pub scales: Vec<f32>,
}

impl Float8Rows<'_> {
    /// Blocks side by side in a matrix of so many columns.
    pub fn groups(&self, cols: usize) -> usize {
        cols.div_ceil(self.block[1])
    }

    /// The scales of a row, one a group.
    pub fn scales_of(&self, row: usize, cols: usize) -> &[f32] {
        let groups = self.groups(cols);
        &self.scales[row / self.block[0] * groups..][..groups]
    }
}

/// A matrix `[rows, cols]` on its way from a file to a device; `rows` are output features.
#[derive(Clone, Debug)]
pub struct HostWeight<'a> {
    /// Output features.
    pub rows: usize,
    /// Input features.
    pub cols: usize,
    /// The numbers.
    pub values: HostValues<'a>,
}

/// The numbers of a [`HostWeight`].
#[derive(Clone, Debug)]
pub enum HostValues<'a> {
    /// Little-endian elements, row by row.
    Plain(DType, Cow<'a, [u8]>),
    /// Quantised groups.
    Affine(AffineRows),
    /// Floats of eight bits.
    Float8(Float8Rows<'a>),
}

impl HostWeight<'_> {
    /// How its numbers are written.
    pub fn format(&self) -> WeightFormat {
        match &self.values {
            HostValues::Plain(dtype, _) => WeightFormat::Plain(*dtype),
            HostValues::Affine(rows) => WeightFormat::Affine {
                bits: rows.bits,
                group: rows.group as u16,
            },
            HostValues::Float8(rows) if rows.block[1] >= self.cols => {
                WeightFormat::Float8 { group: 0 }
            }
            HostValues::Float8(rows) => WeightFormat::Float8 {
                group: rows.block[1] as u32,
            },
        }
    }

    /// One row as plain numbers.
    pub fn row(&self, row: usize) -> Vec<f32> {
        let (start, end) = (row * self.cols, (row + 1) * self.cols);
        match &self.values {
            HostValues::Plain(dtype, bytes) => plain_values(*dtype, bytes, start..end),
            HostValues::Affine(rows) => (start..end)
                .map(|i| {
                    rows.scales[i / rows.group] * f32::from(rows.quants[i])
                        + rows.minimums[i / rows.group]
                })
                .collect(),
            HostValues::Float8(rows) => {
                let scales = rows.scales_of(row, self.cols);
                let codes = rows.codes[start..end].iter().enumerate();
                codes
                    .map(|(col, &code)| float8::decode(code) * scales[col / rows.block[1]])
                    .collect()
            }
        }
    }
}

fn plain_values(dtype: DType, bytes: &[u8], range: std::ops::Range<usize>) -> Vec<f32> {
    let size = dtype.size();
    range
        .map(|i| {
            let raw = &bytes[i * size..(i + 1) * size];
            match dtype {
                DType::F32 => f32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]),
                DType::F16 => half::f16::from_le_bytes([raw[0], raw[1]]).to_f32(),
                DType::BF16 => half::bf16::from_le_bytes([raw[0], raw[1]]).to_f32(),
                other => panic!("{other} is not a type of weights"),
            }
        })
        .collect()
}

/// A matrix in a device's own layout; only the device that made it may use it.
pub struct Weight {
    rows: usize,
    cols: usize,
    format: WeightFormat,
    bytes: usize,
    layout: Box<dyn Any + Send + Sync>,
}

impl Weight {
    /// Called by devices: `layout` is whatever the device needs to find the numbers again.
    pub fn new(
        rows: usize,
        cols: usize,
        format: WeightFormat,
        bytes: usize,
        layout: Box<dyn Any + Send + Sync>,
    ) -> Self {
        Self {
            rows,
            cols,
            format,
            bytes,
            layout,
        }
    }

    /// A weight that is one buffer in plain row-major order.
    pub fn plain(rows: usize, cols: usize, dtype: DType, buffer: Buffer) -> Self {
        let bytes = buffer.bytes();
        Self::new(
            rows,
            cols,
            WeightFormat::Plain(dtype),
            bytes,
            Box::new(buffer),
        )
    }

    /// Output features.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Input features.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// How the numbers are written.
    pub fn format(&self) -> WeightFormat {
        self.format
    }

    /// Device memory it takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The device's own layout.
    pub fn layout<T: 'static>(&self) -> Option<&T> {
        self.layout.downcast_ref()
    }
}
