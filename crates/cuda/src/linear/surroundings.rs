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
    /// Its place among the kernels.
    pub(super) fn number(&self) -> usize {
        match self {
            Self::Results => 0,
            Self::Gated { .. } => 1,
            Self::Onward(_) => 2,
        }
    }
}

/// `LinearSurroundings` of the kernels.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Surroundings {
    out: u64,
    bias: u64,
    partials: u64,
    arrivals: u64,
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
}

impl Surroundings {
    /// Those of a product with a weight of so many outputs, in so many stages; `sums` are the addresses of sums of
    /// shared tiles and of how much of each tile has arrived.
    pub(super) fn new(
        product: &Product<'_>,
        (outputs, stages): (usize, usize),
        [partials, arrivals]: [u64; 2],
        norm: Option<LateNorm<'_>>,
        ending: &Ending<'_>,
    ) -> Self {
        let mut all = Self {
            out: product.out.address() as u64,
            bias: product.bias_address(),
            partials,
            arrivals,
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
}
