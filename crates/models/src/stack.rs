//! Tensors of a checkpoint as one device-neutral weight, their rows below each other.

use std::borrow::Cow;

use checkpoint::gguf::blocks::{Groups, take_apart};
use checkpoint::{CheckpointError, Encoding, RowOrder, TensorInfo, first_not_finite, widen};
use half::{bf16, f16};
use ops::{AffineRows, HostValues, HostWeight, WeightFormat};
use tensor::DType;

use crate::LoadError;

/// A tensor and its bytes.
#[derive(Clone, Copy)]
pub(crate) struct Stored<'a> {
    pub(crate) tensor: &'a TensorInfo,
    pub(crate) bytes: &'a [u8],
}

/// Matrices of equal width that become one weight of this format.
pub(crate) struct Stack<'a> {
    pub(crate) format: WeightFormat,
    pub(crate) parts: Vec<Stored<'a>>,
}

/// One row of a stack, where the file has it.
#[derive(Clone, Copy)]
struct StoredRow<'a> {
    tensor: &'a TensorInfo,
    /// Its place in the file's order.
    row: usize,
    bytes: &'a [u8],
}

impl<'a> Stack<'a> {
    /// Reads everything, on as many threads as there are cores; a weight that is not finite is an error.
    pub(crate) fn read(&self) -> Result<HostWeight<'a>, LoadError> {
        let cols = self.parts[0].tensor.shape[1];
        let rows: Vec<StoredRow<'a>> = self.parts.iter().flat_map(Stored::rows).collect();
        let values = match self.format {
            WeightFormat::Affine { bits, group } => {
                HostValues::Affine(affine(&rows, cols, bits, usize::from(group))?)
            }
            WeightFormat::Plain(dtype) => match self.as_stored(dtype) {
                Some(bytes) => {
                    each_row(&rows, (), |row, ()| row.check())?;
                    HostValues::Plain(dtype, Cow::Borrowed(bytes))
                }
                None => HostValues::Plain(dtype, Cow::Owned(plain(&rows, cols, dtype)?)),
            },
        };
        Ok(HostWeight {
            rows: rows.len(),
            cols,
            values,
        })
    }

    /// The file's own bytes, when they are already what is wanted.
    fn as_stored(&self, dtype: DType) -> Option<&'a [u8]> {
        match self.parts.as_slice() {
            [only]
                if only.tensor.encoding == Encoding::Plain(dtype)
                    && only.tensor.row_order == RowOrder::Plain =>
            {
                Some(only.bytes)
            }
            _ => None,
        }
    }
}

impl<'a> Stored<'a> {
    /// Its rows, in the order that its name promises.
    fn rows(&self) -> impl Iterator<Item = StoredRow<'a>> + use<'a> {
        let Self { tensor, bytes } = *self;
        let rows = tensor.shape[0];
        let row_bytes = bytes.len() / rows.max(1);
        (0..rows).map(move |row| {
            let row = tensor.row_order.stored_row(row);
            StoredRow {
                tensor,
                row,
                bytes: &bytes[row * row_bytes..(row + 1) * row_bytes],
            }
        })
    }
}

impl StoredRow<'_> {
    fn check(&self) -> Result<(), LoadError> {
        match first_not_finite(self.tensor.encoding, self.bytes) {
            None => Ok(()),
            Some(element) => Err(LoadError::Checkpoint(CheckpointError::NotFinite {
                name: self.tensor.name.clone(),
                element: self.row * self.tensor.shape[1] + element,
            })),
        }
    }

    fn widen(&self, out: &mut [f32]) -> Result<(), LoadError> {
        widen(self.tensor.encoding, self.bytes, out).map_err(|error| LoadError::Tensor {
            name: self.tensor.name.clone(),
            message: error.to_string(),
        })
    }
}

/// Something that can be given to threads by rows.
trait ByRows: Sized + Send {
    /// The first `rows` rows, and the rest.
    fn split(self, rows: usize) -> (Self, Self);
}

impl ByRows for () {
    fn split(self, _: usize) -> (Self, Self) {
        ((), ())
    }
}

/// A slice of elements, so many a row.
struct Rows<'m, T> {
    elements: &'m mut [T],
    width: usize,
}

impl<T: Send> ByRows for Rows<'_, T> {
    fn split(self, rows: usize) -> (Self, Self) {
        let (first, rest) = self.elements.split_at_mut(rows * self.width);
        let width = self.width;
        let part = |elements| Self { elements, width };
        (part(first), part(rest))
    }
}

impl<A: ByRows, B: ByRows, C: ByRows> ByRows for (A, B, C) {
    fn split(self, rows: usize) -> (Self, Self) {
        let (a, b, c) = (self.0.split(rows), self.1.split(rows), self.2.split(rows));
        ((a.0, b.0, c.0), (a.1, b.1, c.1))
    }
}

/// Calls `read` with every row and its place in `out`, on all cores.
fn each_row<O: ByRows>(
    rows: &[StoredRow<'_>],
    out: O,
    read: impl Fn(&StoredRow<'_>, O) -> Result<(), LoadError> + Sync,
) -> Result<(), LoadError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = rows.len().div_ceil(threads).max(1);
    let read_share = |rows: &[StoredRow<'_>], mut out: O| -> Result<(), LoadError> {
        for row in rows {
            let (mine, rest) = out.split(1);
            read(row, mine)?;
            out = rest;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let mut out = out;
        let mut readers = Vec::with_capacity(threads);
        for rows in rows.chunks(share) {
            let (mine, rest) = out.split(rows.len());
            out = rest;
            let read_share = &read_share;
            readers.push(scope.spawn(move || read_share(rows, mine)));
        }
        let joined = readers.into_iter().map(|reader| match reader.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    })
}

fn affine(
    rows: &[StoredRow<'_>],
    cols: usize,
    bits: u8,
    group: usize,
) -> Result<AffineRows, LoadError> {
    let groups = cols / group;
    let mut quants = vec![0u8; rows.len() * cols];
    let mut scales = vec![0f32; rows.len() * groups];
    let mut minimums = vec![0f32; rows.len() * groups];
    let out = (
        Rows {
            elements: &mut quants,
            width: cols,
        },
        Rows {
            elements: &mut scales,
            width: groups,
        },
        Rows {
            elements: &mut minimums,
            width: groups,
        },
    );
    each_row(rows, out, |row, (quants, scales, minimums)| {
        row.check()?;
        let Encoding::Block(format) = row.tensor.encoding else {
            unreachable!("only blocks have an affine format")
        };
        let groups = Groups {
            quants: quants.elements,
            scales: scales.elements,
            minimums: minimums.elements,
        };
        take_apart(format, row.bytes, groups);
        Ok(())
    })?;
    Ok(AffineRows {
        bits,
        group,
        quants,
        scales,
        minimums,
    })
}

fn plain(rows: &[StoredRow<'_>], cols: usize, dtype: DType) -> Result<Vec<u8>, LoadError> {
    let width = cols * dtype.size();
    let mut bytes = vec![0u8; rows.len() * width];
    let out = Rows {
        elements: &mut bytes,
        width,
    };
    each_row(rows, out, |row, out| {
        row.check()?;
        if row.tensor.encoding == Encoding::Plain(dtype) {
            out.elements.copy_from_slice(row.bytes);
            return Ok(());
        }
        let mut numbers = vec![0.0; cols];
        row.widen(&mut numbers)?;
        round(&numbers, dtype, out.elements);
        Ok(())
    })?;
    Ok(bytes)
}

/// Writes numbers as little-endian elements of a float type.
fn round(numbers: &[f32], dtype: DType, out: &mut [u8]) {
    let places = out.chunks_exact_mut(dtype.size()).zip(numbers);
    match dtype {
        DType::F32 => places.for_each(|(out, n)| out.copy_from_slice(&n.to_le_bytes())),
        DType::F16 => {
            places.for_each(|(out, n)| out.copy_from_slice(&f16::from_f32(*n).to_le_bytes()));
        }
        DType::BF16 => {
            places.for_each(|(out, n)| out.copy_from_slice(&bf16::from_f32(*n).to_le_bytes()));
        }
        other => unreachable!("{other} is no type of weights"),
    }
}
