//! Weights: as files hold them, and as a device holds them.

use std::any::Any;
use std::borrow::Cow;

use tensor::{Buffer, DType};

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
}

impl std::fmt::Display for WeightFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Plain(dtype) => write!(f, "{dtype}"),
            Self::Affine { bits, group } => write!(f, "{bits}-bit groups of {group}"),
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
