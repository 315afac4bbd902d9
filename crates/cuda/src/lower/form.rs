//! Fused ops, bound to memory, and the forms in which rows pass from one to the next.

use ops::{Activation, Attend, Draw, Linear, OpError, RaggedBatch, RopeStoreKv, Weight};
use tensor::{View, ViewMut};

/// The row factor that a deferred RMS norm still lacks: 1 / √(sum of squares\[row\] / width + eps).
///
/// A GEMM multiplies its results with it instead, so that no kernel has to see a whole row.
#[derive(Clone, Copy)]
pub struct DeferredScale<'a> {
    /// `[tokens, parts]` f32: sums of squares.
    pub squares: View<'a>,
    /// Elements of a row.
    pub width: usize,
    /// Keeps the root away from zero.
    pub eps: f32,
}

impl DeferredScale<'_> {
    /// Columns that share one sum of squares.
    pub const PART: usize = 16;
}

/// In what form a launch left rows that only GEMMs read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowForm {
    /// Numbers of the matrix's type.
    Plain,
    /// Rows lack their factor: see [`DeferredScale`].
    Deferred,
    /// Eight-bit codes and their scales, as GEMMs with the readers take them.
    Codes,
}

impl RowForm {
    /// What such rows are to a GEMM; `scale` is what they lack where they lack something.
    pub fn input(self, scale: DeferredScale<'_>) -> GemmInput<'_> {
        match self {
            Self::Plain => GemmInput::Plain,
            Self::Deferred => GemmInput::Deferred(scale),
            Self::Codes => GemmInput::Codes,
        }
    }
}

/// What the rows are that a GEMM reads.
#[derive(Clone, Copy)]
pub enum GemmInput<'a> {
    /// See [`RowForm::Plain`].
    Plain,
    /// See [`RowForm::Deferred`].
    Deferred(DeferredScale<'a>),
    /// See [`RowForm::Codes`].
    Codes,
}

/// out = activation(gate) · up of a GEMM that gives gate and up side by side.
pub struct GatedGemm<'a> {
    /// The GEMM, into room for gate and up, which may be left as it was.
    pub gemm: Linear<'a>,
    /// What its rows are.
    pub input: GemmInput<'a>,
    /// Which curve.
    pub activation: Activation,
    /// `[tokens, width]`: results.
    pub out: ViewMut<'a>,
    /// Weights that `out` is multiplied with; none when it is read by something else.
    pub readers: &'a [&'a Weight],
}

/// residual = GEMM + residual; out = normalise(residual) · weight.
pub struct GemmAddNorm<'a> {
    /// The GEMM, into room of the residual's shape, which may be left as it was.
    pub gemm: Linear<'a>,
    /// What its rows are.
    pub input: GemmInput<'a>,
    /// `[tokens, hidden]`: the running sum.
    pub residual: ViewMut<'a>,
    /// `[1, hidden]`: one factor a column.
    pub weight: View<'a>,
    /// Keeps the root away from zero.
    pub eps: f32,
    /// `[tokens, hidden]`: results.
    pub out: ViewMut<'a>,
    /// `[tokens, parts]` f32: room for sums of squares.
    pub squares: ViewMut<'a>,
    /// Weights that `out` is multiplied with; none when it is read by something else.
    pub readers: &'a [&'a Weight],
}

/// The token with the largest score, the lowest id among equals, of each row of a GEMM.
pub struct GemmArgmax<'a> {
    /// The GEMM, into room for all scores, which may be left as it was.
    pub gemm: Linear<'a>,
    /// What its rows are.
    pub input: GemmInput<'a>,
    /// Where tokens go.
    pub draw: Draw<'a>,
}

/// Rotates and stores new tokens, then attends; queries and keys may be left rotated or as they were.
pub struct RopeAttend<'a> {
    /// The new tokens and where their keys and values go.
    pub rope: RopeStoreKv<'a>,
    /// Which tokens belong to whom.
    pub batch: RaggedBatch<'a>,
    /// As in [`Attend`].
    pub scale: f32,
    /// As in [`Attend`].
    pub window: Option<usize>,
    /// As in [`Attend`].
    pub soft_cap: Option<f32>,
    /// As in [`Attend`].
    pub sinks: Option<View<'a>>,
    /// Results.
    pub out: ViewMut<'a>,
}

impl RopeAttend<'_> {
    /// Checks shapes and types.
    pub fn check(&mut self) -> Result<(), OpError> {
        self.rope.check()?;
        self.attend().check()
    }

    /// What is left to do once queries are rotated and keys and values are stored.
    pub fn attend(&mut self) -> Attend<'_> {
        Attend {
            query: self.rope.query.view(),
            cache: self.rope.cache,
            batch: self.batch,
            heads: self.rope.heads,
            scale: self.scale,
            window: self.window,
            soft_cap: self.soft_cap,
            sinks: self.sinks,
            out: self.out.reborrow(),
        }
    }
}
