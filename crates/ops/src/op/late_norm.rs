use tensor::{DType, View, ViewMut};

use super::{AddRmsNorm, Form, Inputs, dims, dims_mut, shape, typed};
use crate::{Activation, GatedActivation, Kernels, Linear, OpError, Weight};

/// What rows still lack of a root-mean-square normalisation: row r is to be multiplied by
/// 1 / √(sum of squares\[r\] / width + eps).
///
/// Whoever multiplies such rows with a matrix can do that to the product instead, and no kernel has to see a whole row.
#[derive(Clone, Copy)]
pub struct LateNorm<'a> {
    /// `[tokens, parts]` f32: sums of squares.
    pub squares: View<'a>,
    /// Elements of a row.
    pub width: usize,
    /// Keeps the root away from zero.
    pub eps: f32,
}

impl LateNorm<'_> {
    /// Columns that share one sum of squares.
    pub const PART: usize = 16;

    pub(super) fn check(&self, op: &'static str, rows: usize) -> Result<(), OpError> {
        typed(op, "squares", self.squares.dtype(), DType::F32)?;
        let parts = self.width.div_ceil(Self::PART);
        shape(op, "squares", dims(&self.squares), (rows, parts))
    }

    /// The factor of a row.
    pub fn factor(&self, row: usize) -> f64 {
        let parts = 0..self.squares.cols();
        let sum: f64 = parts
            .map(|part| f64::from(self.squares.value(row, part)))
            .sum();
        1.0 / (sum / self.width as f64 + f64::from(self.eps)).sqrt()
    }
}

/// How far a normalisation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormState {
    /// Rows are normalised.
    Done,
    /// Rows lack their factor: see [`LateNorm`].
    Late,
    /// Rows are normalised, in a form of the device's own: see [`Form::Packed`].
    Packed,
}

impl NormState {
    /// What such rows are to a product, `late` being what they lack where they lack something.
    pub fn inputs(self, late: LateNorm<'_>) -> Inputs<'_> {
        match self {
            Self::Done => Inputs::Plain,
            Self::Late => Inputs::Late(late),
            Self::Packed => Inputs::Packed,
        }
    }
}

/// A product whose inputs lack the factor of their normalisation.
pub struct LateLinear<'a> {
    /// The product.
    pub product: Linear<'a>,
    /// What its inputs lack.
    pub norm: LateNorm<'a>,
}

impl LateLinear<'_> {
    /// Checks shapes and types.
    pub fn check(&self) -> Result<(), OpError> {
        self.product.check()?;
        self.norm.check("late_linear", self.product.x.rows())
    }
}

/// out = activation(gate) · up of a product that gives gate and up side by side.
///
/// A device may leave the product's own destination as it was. It may also leave `out` packed, if all that reads it are
/// products with `readers`.
pub struct GatedLinear<'a> {
    /// The product, into room for gate and up.
    pub product: Linear<'a>,
    /// What its inputs are like.
    pub inputs: Inputs<'a>,
    /// Which curve.
    pub activation: Activation,
    /// `[tokens, width]`: results.
    pub out: ViewMut<'a>,
    /// Weights that `out` is multiplied with; none when it is read by something else.
    pub readers: &'a [Weight],
}

impl GatedLinear<'_> {
    /// Checks shapes and types.
    pub fn check(&self) -> Result<(), OpError> {
        self.product.check()?;
        let rows = self.product.x.rows();
        self.inputs.check("gated_linear", rows)?;
        let width = self.product.weight.rows() / 2;
        shape("gated_linear", "out", dims_mut(&self.out), (rows, width))
    }

    /// Runs the two ops that it stands for.
    pub fn compose<K: Kernels + ?Sized>(self, kernels: &K) -> Result<Form, OpError> {
        let mut product = self.product;
        self.inputs.multiply(kernels, product.reborrow())?;
        kernels.gated_activation(GatedActivation {
            gate_up: product.out.view(),
            activation: self.activation,
            out: self.out,
        })?;
        Ok(Form::Plain)
    }
}

/// residual = product + residual; out = normalise(residual) · weight.
///
/// A device may leave the product's own destination as it was. If all that reads `out` are products with `readers`, it may
/// also leave out the factor of each row, then it fills `squares`; or leave `out` packed.
pub struct LinearAddNorm<'a> {
    /// The product, into room of the residual's shape.
    pub product: Linear<'a>,
    /// What its inputs are like.
    pub inputs: Inputs<'a>,
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
    pub readers: &'a [Weight],
}

impl LinearAddNorm<'_> {
    /// Checks shapes and types.
    pub fn check(&self) -> Result<(), OpError> {
        let op = "linear_add_norm";
        self.product.check()?;
        self.inputs.check(op, self.product.x.rows())?;
        let sums = dims_mut(&self.product.out);
        shape(op, "residual", dims_mut(&self.residual), sums)?;
        shape(op, "weight", dims(&self.weight), (1, sums.1))?;
        shape(op, "out", dims_mut(&self.out), sums)?;
        typed(op, "squares", self.squares.dtype(), DType::F32)?;
        let parts = sums.1.div_ceil(LateNorm::PART);
        shape(op, "squares", dims_mut(&self.squares), (sums.0, parts))
    }

    /// Runs the two ops that it stands for.
    pub fn compose<K: Kernels + ?Sized>(self, kernels: &K) -> Result<NormState, OpError> {
        let mut product = self.product;
        self.inputs.multiply(kernels, product.reborrow())?;
        kernels.add_rms_norm(AddRmsNorm {
            x: product.out.view(),
            residual: self.residual,
            weight: self.weight,
            eps: self.eps,
            out: self.out,
        })?;
        Ok(NormState::Done)
    }
}
