//! Epilogues of our GEMM kernels, and the parameters of what is fused around a GEMM.

use tensor::{DType, View, ViewMut};

use super::Gemm;
use crate::lower::DeferredScale;

/// What becomes of a GEMM's sums.
pub(crate) enum Epilogue<'a> {
    /// They are stored.
    Store,
    /// Gates and up rows, eight of each in turn, become half as many results.
    Gated { gelu: bool },
    /// They are added to the residual, whose next norm has its RMS scale deferred.
    AddNorm(AddNorm<'a>),
}

/// Residual add; the GEMM's own destination takes the sum times the next norm's weight.
pub(crate) struct AddNorm<'a> {
    pub(crate) residual: ViewMut<'a>,
    pub(crate) norm: View<'a>,
    pub(crate) squares: ViewMut<'a>,
}

impl Epilogue<'_> {
    /// Prefixes of kernel names, by epilogue.
    pub(super) const NAMES: [&'static str; 3] =
        ["linear_stream", "linear_gated", "linear_add_norm"];

    pub(crate) fn is_gated(&self) -> bool {
        matches!(self, Self::Gated { .. })
    }

    /// Outputs of the weight: twice the results where half of them are gates.
    pub(crate) fn outputs(&self, gemm: &Gemm<'_>) -> usize {
        gemm.out.cols() * if self.is_gated() { 2 } else { 1 }
    }

    /// Its index among the kernels.
    pub(crate) fn number(&self) -> usize {
        match self {
            Self::Store => 0,
            Self::Gated { .. } => 1,
            Self::AddNorm(_) => 2,
        }
    }
}

/// The output matrix of a stage, as the next one may read it.
pub(crate) struct StageOutput {
    pub(crate) address: u64,
    pub(crate) stride: u32,
    pub(crate) results: usize,
    pub(crate) rows: usize,
}

impl StageOutput {
    /// True when it is this matrix: address, stride, columns, rows.
    pub(crate) fn is(&self, (address, stride, cols, rows): (u64, u32, usize, usize)) -> bool {
        (self.address, self.results, self.rows) == (address, cols, rows)
            && (rows == 1 || self.stride == stride)
    }
}

/// `EpilogueParams` of the kernels.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct EpilogueParams {
    out: u64,
    bias: u64,
    squares: u64,
    residual: u64,
    norm: u64,
    next_squares: u64,
    out_stride: u32,
    residual_stride: u32,
    rows: u32,
    outputs: u32,
    stages: u32,
    wide: u32,
    gelu: u32,
    parts: u32,
    next_parts: u32,
    width: f32,
    eps: f32,
    delays_dependents: u32,
}

impl EpilogueParams {
    /// Of a GEMM with a weight of that many outputs, in that many k-tiles.
    pub(crate) fn new(
        gemm: &Gemm<'_>,
        (outputs, stages): (usize, usize),
        norm: Option<DeferredScale<'_>>,
        epilogue: &Epilogue<'_>,
    ) -> Self {
        let mut all = Self {
            out: gemm.out.address() as u64,
            bias: gemm.bias_address(),
            squares: 0,
            residual: 0,
            norm: 0,
            next_squares: 0,
            out_stride: gemm.out.stride() as u32,
            residual_stride: 0,
            rows: gemm.x.rows() as u32,
            outputs: outputs as u32,
            stages: stages as u32,
            wide: u32::from(gemm.out.dtype() == DType::F32),
            gelu: u32::from(matches!(epilogue, Epilogue::Gated { gelu: true })),
            parts: 0,
            next_parts: 0,
            width: 0.0,
            eps: 0.0,
            delays_dependents: 0,
        };
        if let Some(norm) = norm {
            all.squares = norm.squares.address() as u64;
            all.parts = norm.squares.stride() as u32;
            (all.width, all.eps) = (norm.width as f32, norm.eps);
        }
        if let Epilogue::AddNorm(add_norm) = epilogue {
            all.residual = add_norm.residual.address() as u64;
            all.residual_stride = add_norm.residual.stride() as u32;
            all.norm = add_norm.norm.address() as u64;
            all.next_squares = add_norm.squares.address() as u64;
            all.next_parts = add_norm.squares.stride() as u32;
        }
        all
    }

    /// The same with an argmax epilogue: keys go to this address, one per row, and no results anywhere.
    pub(crate) fn with_argmax_keys(self, keys: u64) -> Self {
        Self { out: keys, ..self }
    }

    /// Delayed dependent launch: the next kernel may not begin before the previous one has ended.
    pub(crate) fn delaying_dependents(self, delays_dependents: bool) -> Self {
        Self {
            delays_dependents: u32::from(delays_dependents),
            ..self
        }
    }

    /// Its output matrix; none where that is not of the type of activations.
    pub(crate) fn output(&self, gated: bool) -> Option<StageOutput> {
        let results = self.outputs as usize / if gated { 2 } else { 1 };
        (self.wide == 0).then_some(StageOutput {
            address: self.out,
            stride: self.out_stride,
            results,
            rows: self.rows as usize,
        })
    }

    /// Address of the sums of squares of its inputs, or zero, and how many there are per row.
    pub(crate) fn squares(&self) -> (u64, usize) {
        (self.squares, self.parts as usize)
    }

    /// Address of the sums of squares of its results, or zero.
    pub(crate) fn next_squares(&self) -> u64 {
        self.next_squares
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows as usize
    }
}

#[cfg(test)]
mod tests {
    use super::StageOutput;

    #[test]
    fn messages_carry_results_only_where_they_are_the_whole_matrix() {
        let output = |rows| StageOutput {
            address: 64,
            stride: 32,
            results: 16,
            rows,
        };
        for (rows, matrix, expected) in [
            (2, (64, 32, 16, 2), true),
            (2, (64, 16, 16, 2), false),
            (1, (64, 16, 16, 1), true),
            (2, (66, 32, 16, 2), false),
            (2, (64, 32, 8, 2), false),
            (2, (64, 32, 16, 1), false),
        ] {
            assert_eq!(output(rows).is(matrix), expected, "{matrix:?}");
        }
    }
}
