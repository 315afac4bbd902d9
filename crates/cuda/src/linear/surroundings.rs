//! What surrounds a product of our kernels: where results go, and what of the kernels around it is done with them.

use ops::LateNorm;
use tensor::{DType, View, ViewMut};

use super::Product;

/// What becomes of a product.
pub(crate) enum Ending<'a> {
    /// It is written.
    Results,
    /// Gates and their factors, eight of each in turn, become half as many results.
    Gated { gelu: bool },
    /// It is added to the residual, and the sum goes on to a norm.
    Onward(Onward<'a>),
}

/// The end of a layer; the product's own destination takes the sum times the norm's weight.
pub(crate) struct Onward<'a> {
    pub(crate) residual: ViewMut<'a>,
    pub(crate) norm: View<'a>,
    pub(crate) squares: ViewMut<'a>,
}

impl Ending<'_> {
    /// How names of kernels begin, by ending.
    pub(super) const NAMES: [&'static str; 3] = ["linear_stream", "linear_gated", "linear_add_norm"];

    pub(crate) fn is_gated(&self) -> bool {
        matches!(self, Self::Gated { .. })
    }

    /// Outputs of the weight: twice the results where half of them are gates.
    pub(crate) fn outputs(&self, product: &Product<'_>) -> usize {
        product.out.cols() * if self.is_gated() { 2 } else { 1 }
    }

    /// Its place among the kernels.
    pub(crate) fn number(&self) -> usize {
        match self {
            Self::Results => 0,
            Self::Gated { .. } => 1,
            Self::Onward(_) => 2,
        }
    }
}

/// Results of an op, as the next one may read them.
pub(crate) struct Told {
    pub(crate) address: u64,
    pub(crate) stride: u32,
    pub(crate) results: usize,
    pub(crate) rows: usize,
}

impl Told {
    /// True when they are this matrix: address, stride, columns, rows.
    pub(crate) fn is(&self, (address, stride, cols, rows): (u64, u32, usize, usize)) -> bool {
        (self.address, self.results, self.rows) == (address, cols, rows)
            && (rows == 1 || self.stride == stride)
    }
}

/// `EpilogueParams` of the kernels.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Surroundings {
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
    holds_back: u32,
}

impl Surroundings {
    /// Those of a product with a weight of so many outputs, in so many stages.
    pub(crate) fn new(
        product: &Product<'_>,
        (outputs, stages): (usize, usize),
        norm: Option<LateNorm<'_>>,
        ending: &Ending<'_>,
    ) -> Self {
        let mut all = Self {
            out: product.out.address() as u64,
            bias: product.bias_address(),
            squares: 0,
            residual: 0,
            norm: 0,
            next_squares: 0,
            out_stride: product.out.stride() as u32,
            residual_stride: 0,
            rows: product.x.rows() as u32,
            outputs: outputs as u32,
            stages: stages as u32,
            wide: u32::from(product.out.dtype() == DType::F32),
            gelu: u32::from(matches!(ending, Ending::Gated { gelu: true })),
            parts: 0,
            next_parts: 0,
            width: 0.0,
            eps: 0.0,
            holds_back: 0,
        };
        if let Some(norm) = norm {
            all.squares = norm.squares.address() as u64;
            all.parts = norm.squares.stride() as u32;
            (all.width, all.eps) = (norm.width as f32, norm.eps);
        }
        if let Ending::Onward(onward) = ending {
            all.residual = onward.residual.address() as u64;
            all.residual_stride = onward.residual.stride() as u32;
            all.norm = onward.norm.address() as u64;
            all.next_squares = onward.squares.address() as u64;
            all.next_parts = onward.squares.stride() as u32;
        }
        all
    }

    /// The same where keys of the largest results go to this address, one a row, and no results anywhere.
    pub(crate) fn telling_largest(self, keys: u64) -> Self {
        Self { out: keys, ..self }
    }

    /// The same where the kernel behind may not begin before the one before has ended.
    pub(crate) fn holding_back(self, holds_back: bool) -> Self {
        Self {
            holds_back: u32::from(holds_back),
            ..self
        }
    }

    /// Its results as a matrix; none where they are not of the type of activations.
    pub(crate) fn told(&self, gated: bool) -> Option<Told> {
        let results = self.outputs as usize / if gated { 2 } else { 1 };
        (self.wide == 0).then_some(Told {
            address: self.out,
            stride: self.out_stride,
            results,
            rows: self.rows as usize,
        })
    }

    /// Where sums of squares of its inputs are, or zero, and how many there are of a row.
    pub(crate) fn squares(&self) -> (u64, usize) {
        (self.squares, self.parts as usize)
    }

    /// Where those of its results go, or zero.
    pub(crate) fn next_squares(&self) -> u64 {
        self.next_squares
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows as usize
    }
}

#[cfg(test)]
mod tests {
    use super::Told;

    #[test]
    fn results_are_read_by_mail_only_where_they_are_the_whole_matrix() {
        let told = |rows| Told {
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
            assert_eq!(told(rows).is(matrix), expected, "{matrix:?}");
        }
    }
}
