//! Activations rounded to eight-bit floats: by the kernels that make them, or by one of their own.

use ops::{DeviceError, Weight};
use tensor::{Buffer, View, ViewMut};

use super::launch::words;
use super::weight::padded;
use super::{Candidate, Float8Weight, MOST_ROUNDED, SEGMENT};
use crate::launch::{Grid, launch};
use crate::linear::blas::{Algorithm, Factors, Scaled, Scales};
use crate::linear::{Gemm, Gemms, Shape, locked};
use crate::lower::RowForm;
use crate::module::{Function, Modules};

/// Columns of a row that the kernels keep in registers at most.
pub(super) const LONGEST: usize = 8 * VECTORS[2].0 * VECTORS[2].1;
/// Times eight columns that a thread of the compiled kernels takes, and threads of the largest block.
const VECTORS: [(usize, usize); 3] = [(1, 1024), (2, 768), (4, 1024)];
/// Rows that a block takes, by source and pieces.
const ROWS: [[usize; VECTORS.len()]; 3] = [[1, 1, 1], [2, 2, 1], [1, 1, 1]];

/// Rows that are to be packed.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// As they are.
    Rows(View<'a>),
    /// activation(gate) · up of such rows.
    Gates {
        gate_up: View<'a>,
        lacking: Option<Lacking>,
        gelu: bool,
    },
    /// Added to others, which take the sums, and normalised.
    Norm {
        x: View<'a>,
        lacking: Option<Lacking>,
        /// Where the residual is, and its stride.
        residual: (u64, usize),
        weight: View<'a>,
        eps: f32,
    },
}

/// What a product of codes gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scaling {
    /// Results.
    Whole,
    /// Sums of codes, which lack their scales.
    Bare,
}

/// Scales that sums of codes lack, where they are: one a row, and one an output.
#[derive(Clone, Copy)]
pub(crate) struct Lacking {
    rows: u64,
    outputs: u64,
}

impl Source<'_> {
    /// Their place among the kernels.
    fn number(&self) -> usize {
        match self {
            Self::Rows(_) => 0,
            Self::Gates { .. } => 1,
            Self::Norm { .. } => 2,
        }
    }
}

/// The kernels, by source and pieces a thread.
pub(super) struct Packers([[Function; VECTORS.len()]; 3]);

impl Packers {
    pub(super) fn find(modules: &Modules) -> Result<Self, DeviceError> {
        let mut functions = [[modules.find("pack_rows_1")?; _]; _];
        for (by_vectors, name) in functions.iter_mut().zip(["rows", "gates", "norm"]) {
            for (function, (vectors, _)) in by_vectors.iter_mut().zip(VECTORS) {
                *function = modules.find(&format!("pack_{name}_{vectors}"))?;
            }
        }
        Ok(Self(functions))
    }
}

/// Where the codes of rows lie, and their scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackedRows {
    codes: u64,
    scales: u64,
    rows: usize,
    /// Numbers of a row.
    width: usize,
    /// A scale for each segment of a row, column by column; else one a row.
    grouped: bool,
}

impl PackedRows {
    /// In the memory of a matrix of bf16 without gaps: codes in its first half, scales behind them.
    pub(crate) fn within(address: u64, (rows, width): (usize, usize), grouped: bool) -> Self {
        Self {
            codes: address,
            scales: address + (rows * width) as u64,
            rows,
            width,
            grouped,
        }
    }

    /// In a workspace.
    pub(super) fn in_room(
        (codes, scales): (&Buffer, &Buffer),
        (rows, width): (usize, usize),
        grouped: bool,
    ) -> Self {
        Self {
            codes: codes.address() as u64,
            scales: scales.address() as u64,
            rows,
            width,
            grouped,
        }
    }

    /// As the library takes them, with scales or without; none where it does not take the weight's.
    pub(super) fn scaled(&self, weight: &Float8Weight, how: Scaling) -> Option<Scaled> {
        let scales = [self.scales, weight.library_scales()?.address() as u64];
        Some(Scaled {
            x: self.codes,
            inputs: weight.padded(),
            scales: match how {
                Scaling::Bare => None,
                Scaling::Whole if weight.is_grouped() => Some(Scales::Groups(scales)),
                Scaling::Whole => Some(Scales::Rows(scales)),
            },
        })
    }

    /// What products of them lack that know no scales; none where there is more than one a row.
    fn lacking(&self, weight: &Float8Weight) -> Option<Lacking> {
        let outputs = weight.library_scales()?.address() as u64;
        (!self.grouped).then_some(Lacking {
            rows: self.scales,
            outputs,
        })
    }
}

#[derive(Clone, Copy)]
#[repr(C)]
struct PackParams {
    x: u64,
    codes: u64,
    scales: u64,
    residual: u64,
    norm: u64,
    row_scales: u64,
    column_scales: u64,
    x_stride: u32,
    residual_stride: u32,
    rows: u32,
    width: u32,
    words: u32,
    scale_stride: u32,
    wide_norm: u32,
    gelu: u32,
    eps: f32,
}

impl PackParams {
    fn new(source: Source<'_>, to: &PackedRows) -> Self {
        let (Source::Rows(x) | Source::Gates { gate_up: x, .. } | Source::Norm { x, .. }) = source;
        let mut params = Self {
            x: x.address() as u64,
            codes: to.codes,
            scales: to.scales,
            residual: 0,
            norm: 0,
            row_scales: 0,
            column_scales: 0,
            x_stride: x.stride() as u32,
            residual_stride: 0,
            rows: to.rows as u32,
            width: to.width as u32,
            words: words(to.width),
            scale_stride: if to.grouped { to.rows as u32 } else { 0 },
            wide_norm: 0,
            gelu: 0,
            eps: 0.0,
        };
        if let Source::Gates { lacking, .. } | Source::Norm { lacking, .. } = source
            && let Some(lacking) = lacking
        {
            (params.row_scales, params.column_scales) = (lacking.rows, lacking.outputs);
        }
        match source {
            Source::Rows(_) => {}
            Source::Gates { gelu, .. } => params.gelu = u32::from(gelu),
            Source::Norm {
                residual,
                weight,
                eps,
                ..
            } => {
                (params.residual, params.residual_stride) = (residual.0, residual.1 as u32);
                params.norm = weight.address() as u64;
                params.wide_norm = u32::from(weight.dtype() == tensor::DType::F32);
                params.eps = eps;
            }
        }
        params
    }
}

/// Pieces that a thread takes of a row, by number, and threads of the block.
fn threads(width: usize) -> Option<(usize, usize)> {
    let vectors = padded(width) / 8;
    let place = VECTORS
        .iter()
        .position(|(each, threads)| vectors <= each * threads)?;
    Some((
        place,
        vectors.div_ceil(VECTORS[place].0).next_multiple_of(32),
    ))
}

impl Gemms {
    /// Enqueues the packing of rows that are made of 16-byte pieces and no longer than [`LONGEST`].
    pub(crate) fn pack(&self, source: Source<'_>, to: &PackedRows) -> Result<(), DeviceError> {
        let (vectors, threads) = threads(to.width).expect("longer rows are not packed");
        let function = self.float8().packers.0[source.number()][vectors];
        let blocks = to.rows.div_ceil(ROWS[source.number()][vectors]);
        let (grid, params) = (Grid::line(blocks, threads), PackParams::new(source, to));
        // SAFETY: the struct of the kernel; sources are checked views, and there is room for codes and scales of the rows.
        unsafe { launch(&self.context, function, grid, &params) }
    }

    /// Where `out` is packed for products with all of these weights; none where one of them takes it as it is.
    pub(crate) fn packing(&self, readers: &[&Weight], out: &ViewMut<'_>) -> Option<PackedRows> {
        let (rows, width) = (out.rows(), out.cols());
        let grouped = readers.first()?.layout::<Float8Weight>()?.is_grouped();
        let same = |weight: &&Weight| {
            let layout = weight.layout::<Float8Weight>();
            layout.is_some_and(|layout| {
                layout.is_grouped() == grouped && self.takes_packed(layout, rows)
            })
        };
        let (begins, goes_on) = (
            (out.address() as usize).is_multiple_of(16),
            out.stride() == width,
        );
        let fits = rows <= MOST_ROUNDED && width <= LONGEST && width.is_multiple_of(SEGMENT);
        // The library takes scales of segments for whole fours of rows.
        let whole = !grouped || rows.is_multiple_of(4);
        (rows > 0 && begins && goes_on && fits && whole && readers.iter().all(same))
            .then(|| PackedRows::within(out.address() as u64, (rows, width), grouped))
    }

    /// True when products of so many rows with the weight round them anyway.
    fn takes_packed(&self, weight: &Float8Weight, rows: usize) -> bool {
        let Some(shape) = Shape::plain((weight.outputs, weight.inputs), rows) else {
            return false;
        };
        let chosen = locked(&self.float8().chosen);
        let rounds = |shape| {
            let choice = chosen.get(&(shape, weight.kind()));
            choice.map(|choice| matches!(choice.candidate, Candidate::Rounded(_)))
        };
        // Where a bias was foreseen, a product with one must have its algorithm too.
        rounds(shape) == Some(true) && rounds(shape.biased()) != Some(false)
    }

    /// Enqueues a product of rows that were [packed](Self::packing).
    pub(crate) fn run_packed(
        &self,
        gemm: &Gemm<'_>,
        weight: &Float8Weight,
    ) -> Result<(), DeviceError> {
        let shape = (gemm.x.rows(), gemm.x.cols());
        let rows = PackedRows::within(gemm.x.address() as u64, shape, weight.is_grouped());
        let algorithm = self.packed_algorithm(gemm, weight)?;
        self.multiply_codes(gemm, weight, &rows, (&algorithm, Scaling::Whole))
    }

    /// Enqueues a product, of packed rows or others, whose sums lack what this says; none, and nothing is enqueued, where
    /// that is not faster than to give results.
    pub(crate) fn run_bare(
        &self,
        gemm: &Gemm<'_>,
        weight: &Float8Weight,
        form: RowForm,
    ) -> Result<Option<Lacking>, DeviceError> {
        let (x, key) = (&gemm.x, (Shape::of(gemm), weight.kind()));
        let bare = locked(&self.float8().chosen)
            .get(&key)
            .and_then(|choice| choice.bare);
        let fits = gemm.rows_are_aligned() && gemm.results_are_aligned();
        let Some(algorithm) = bare.filter(|_| fits && x.rows() <= MOST_ROUNDED) else {
            return Ok(None);
        };
        let rows = match form {
            RowForm::Codes => {
                let shape = (x.rows(), x.cols());
                PackedRows::within(x.address() as u64, shape, weight.is_grouped())
            }
            RowForm::Plain | RowForm::Deferred => {
                let rows = self.float8_room(weight.padded())?.packed(gemm, weight);
                self.pack(Source::Rows(*x), &rows)?;
                rows
            }
        };
        self.multiply_codes(gemm, weight, &rows, (&algorithm, Scaling::Bare))?;
        Ok(rows.lacking(weight))
    }

    /// What was chosen for the shape, or what the library suggests where the type of results made a difference.
    fn packed_algorithm(
        &self,
        gemm: &Gemm<'_>,
        weight: &Float8Weight,
    ) -> Result<Algorithm, DeviceError> {
        let shape = Shape::of(gemm);
        if let Some(choice) = locked(&self.float8().chosen).get(&(shape, weight.kind()))
            && let Candidate::Rounded(algorithm) = choice.candidate
        {
            return Ok(algorithm);
        }
        let suggested = self.code_candidates(gemm, weight, (1, Scaling::Whole))?;
        suggested.first().copied().ok_or_else(|| shape.impossible())
    }

    pub(super) fn multiply_codes(
        &self,
        gemm: &Gemm<'_>,
        weight: &Float8Weight,
        rows: &PackedRows,
        (algorithm, scaling): (&Algorithm, Scaling),
    ) -> Result<(), DeviceError> {
        let scaled = rows.scaled(weight, scaling);
        let scaled = scaled.expect("there are algorithms only with the library's scales");
        let codes = weight.codes.address() as u64;
        self.blas
            .enqueue(gemm, codes, Factors::Scaled(&scaled), algorithm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_keeps_a_whole_row() {
        for (width, expected) in [
            (8, Some((0, 32))),
            (4096, Some((0, 512))),
            (8192, Some((0, 1024))),
            (12288, Some((1, 768))),
            (8960, Some((1, 576))),
            (14336, Some((2, 448))),
            (28672, Some((2, 896))),
            (LONGEST, Some((2, 1024))),
            (LONGEST + 8, None),
        ] {
            assert_eq!(threads(width), expected, "{width}");
        }
    }

    #[test]
    fn codes_and_scales_fit_into_the_matrix_they_replace() {
        for (rows, width, grouped) in [(1, 128, false), (68, 128, true), (4096, 12288, true)] {
            let packed = PackedRows::within(1 << 20, (rows, width), grouped);
            let scales = if grouped {
                rows * width / SEGMENT
            } else {
                rows
            };
            assert_eq!(packed.scales - packed.codes, (rows * width) as u64);
            let end = packed.scales + 4 * scales as u64;
            assert!(end <= (1 << 20) + 2 * (rows * width) as u64, "{packed:?}");
            assert!(packed.scales.is_multiple_of(16), "{packed:?}");
        }
    }
}
