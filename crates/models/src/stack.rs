//! Tensors of a checkpoint as one device-neutral weight, their rows below each other.

use std::borrow::Cow;

use checkpoint::gguf::blocks::{Groups, take_apart};
use checkpoint::{
    CheckpointError, Encoding, RowOrder, TensorInfo, WeightSource, first_not_finite, widen,
};
use half::{bf16, f16};
use ops::{AffineRows, Float8Rows, HostValues, HostWeight, WeightFormat, float8};
use tensor::DType;

use crate::LoadError;
use crate::scales::{Grid, below_each_other};

/// A tensor and its bytes.
#[derive(Clone, Copy)]
pub(crate) struct Stored<'a> {
    pub(crate) tensor: &'a TensorInfo,
    pub(crate) bytes: &'a [u8],
}

/// A matrix and, for eight-bit floats, its scales.
pub(crate) struct Part<'a> {
    pub(crate) stored: Stored<'a>,
    pub(crate) grid: Option<Grid>,
}

/// Matrices of equal width that become one weight of this format.
pub(crate) struct Stack<'a> {
    pub(crate) format: WeightFormat,
    pub(crate) parts: Vec<Part<'a>>,
}

/// One row of a stack, where the file has it.
#[derive(Clone, Copy)]
pub(crate) struct StoredRow<'a> {
    tensor: &'a TensorInfo,
    /// Its place in the file's order.
    row: usize,
    bytes: &'a [u8],
    grid: Option<&'a Grid>,
}

impl<'a> Stack<'a> {
    /// Reads everything, on as many threads as there are cores; a weight that is not finite is an error.
    pub(crate) fn read(&self) -> Result<HostWeight<'a>, LoadError> {
        let cols = self.cols();
        let rows: Vec<StoredRow<'_>> = self.parts.iter().flat_map(Part::rows).collect();
        let values = match self.format {
            WeightFormat::Affine { bits, group } => {
                HostValues::Affine(affine(&rows, cols, bits, usize::from(group))?)
            }
            WeightFormat::Float8 { .. } => HostValues::Float8(self.float8(&rows, cols)?),
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
            [part] if part.is_stored_as(dtype) => Some(part.stored.bytes),
            _ => None,
        }
    }

    /// Blocks and scales of files, without codes; none where wider numbers are to be rounded.
    pub(crate) fn grid(&self) -> Option<Float8Rows<'static>> {
        let grids: Option<Vec<(usize, &Grid)>> = self
            .parts
            .iter()
            .map(|part| Some((part.stored.tensor.shape[0], part.grid.as_ref()?)))
            .collect();
        Some(below_each_other(&grids?, self.cols()))
    }

    /// Rows of all parts.
    pub(crate) fn rows(&self) -> usize {
        let rows = self.parts.iter().map(|part| part.stored.tensor.shape[0]);
        rows.sum()
    }

    /// Columns of every part.
    pub(crate) fn cols(&self) -> usize {
        self.parts[0].stored.tensor.shape[1]
    }

    /// Codes and scales of files, or wider numbers rounded to codes with a scale a row.
    fn float8(&self, rows: &[StoredRow<'_>], cols: usize) -> Result<Float8Rows<'a>, LoadError> {
        let Some(grid) = self.grid() else {
            return quantised(rows, cols);
        };
        let codes = match self.as_stored(DType::F8E4M3) {
            Some(bytes) => {
                each_row(rows, (), |row, ()| row.check())?;
                Cow::Borrowed(bytes)
            }
            None => Cow::Owned(plain(rows, cols, DType::F8E4M3)?),
        };
        Ok(Float8Rows { codes, ..grid })
    }
}

impl Part<'_> {
    /// True when the file has it row by row in this type.
    pub(crate) fn is_stored_as(&self, dtype: DType) -> bool {
        let tensor = self.stored.tensor;
        tensor.encoding == Encoding::Plain(dtype) && tensor.row_order == RowOrder::Plain
    }

    /// Its rows, in the order that its name promises.
    fn rows(&self) -> impl Iterator<Item = StoredRow<'_>> {
        (0..self.stored.tensor.shape[0]).map(|row| self.row(row))
    }

    /// A row by its place in the order that its name promises.
    fn row(&self, row: usize) -> StoredRow<'_> {
        let (row, width) = self.place(row);
        self.stored_row(row, &self.stored.bytes[row * width..(row + 1) * width])
    }

    /// A row's place in the file's order, and its bytes there.
    fn place(&self, row: usize) -> (usize, usize) {
        let Stored { tensor, bytes } = self.stored;
        let width = bytes.len() / tensor.shape[0];
        (tensor.row_order.stored_row(row), width)
    }

    fn stored_row<'r>(&'r self, row: usize, bytes: &'r [u8]) -> StoredRow<'r> {
        StoredRow {
            tensor: self.stored.tensor,
            row,
            bytes,
            grid: self.grid.as_ref(),
        }
    }

    /// As [`Self::row`], copied to `bytes` instead of found in the mapping.
    pub(crate) fn read_row<'r>(
        &'r self,
        source: &dyn WeightSource,
        row: usize,
        bytes: &'r mut Vec<u8>,
    ) -> Result<StoredRow<'r>, LoadError> {
        let (row, width) = self.place(row);
        bytes.resize(width, 0);
        source.read(self.stored.tensor, row * width, bytes)?;
        Ok(self.stored_row(row, bytes))
    }
}

impl StoredRow<'_> {
    fn check(&self) -> Result<(), LoadError> {
        check_rows(self.tensor, self.row, self.bytes)
    }

    /// Writes its numbers as elements of a type; those that are codes already keep their scales.
    pub(crate) fn write(&self, dtype: DType, out: &mut [u8]) -> Result<(), LoadError> {
        self.check()?;
        if self.tensor.encoding == Encoding::Plain(dtype) {
            out.copy_from_slice(self.bytes);
            return Ok(());
        }
        round(&self.numbers()?, dtype, out);
        Ok(())
    }

    /// Writes its numbers as eight-bit floats and tells their scale.
    pub(crate) fn quantise(&self, codes: &mut [u8]) -> Result<f32, LoadError> {
        self.check()?;
        Ok(float8::quantise_row(&self.numbers()?, codes))
    }

    fn numbers(&self) -> Result<Vec<f32>, LoadError> {
        let mut numbers = vec![0.0; self.tensor.shape[1]];
        self.widen(&mut numbers)?;
        Ok(numbers)
    }

    fn widen(&self, out: &mut [f32]) -> Result<(), LoadError> {
        if let Some(grid) = self.grid {
            let scales = grid.row(self.row, out.len());
            for (col, (out, &code)) in out.iter_mut().zip(self.bytes).enumerate() {
                *out = float8::decode(code) * scales[col / grid.block[1]];
            }
            return Ok(());
        }
        widen(self.tensor.encoding, self.bytes, out).map_err(|error| LoadError::Tensor {
            name: self.tensor.name.clone(),
            message: error.to_string(),
        })
    }
}

/// Fails when rows of a tensor, from `first` of the file's order on, hold something that is not finite.
pub(crate) fn check_rows(tensor: &TensorInfo, first: usize, bytes: &[u8]) -> Result<(), LoadError> {
    match first_not_finite(tensor.encoding, bytes) {
        None => Ok(()),
        Some(element) => Err(LoadError::Checkpoint(CheckpointError::NotFinite {
            name: tensor.name.clone(),
            element: first * tensor.shape[1] + element,
        })),
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
    each_row(rows, out, |row, out| row.write(dtype, out.elements))?;
    Ok(bytes)
}

/// Wider numbers as eight-bit floats with a scale a row.
fn quantised(rows: &[StoredRow<'_>], cols: usize) -> Result<Float8Rows<'static>, LoadError> {
    let mut codes = vec![0u8; rows.len() * cols];
    let mut scales = vec![0f32; rows.len()];
    let out = (
        Rows {
            elements: &mut codes,
            width: cols,
        },
        Rows {
            elements: &mut scales,
            width: 1,
        },
        (),
    );
    each_row(rows, out, |row, (codes, scale, ())| {
        scale.elements[0] = row.quantise(codes.elements)?;
        Ok(())
    })?;
    Ok(Float8Rows {
        codes: codes.into(),
        block: [1, cols],
        scales,
    })
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
