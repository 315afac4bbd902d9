use tensor::View;

use super::{dims, dims_mut, float, shape};
use crate::handles::op_fields;
use crate::{Bound, Handles, OpError};

/// out = x / √(mean(x²) + eps) · weight, row by row.
///
/// x, out: `[tokens, hidden]`; weight: `[1, hidden]`. Sums in f32, rounds once.
#[derive(Clone, Copy, Debug)]
pub struct RmsNorm<H: Handles> {
    /// Inputs.
    pub x: H::In,
    /// One factor a column.
    pub weight: H::Vector,
    /// Keeps the root away from zero.
    pub eps: f32,
    /// Results.
    pub out: H::Out,
}

op_fields!(RmsNorm {
    x,
    weight,
    eps,
    out
});

impl RmsNorm<Bound<'_>> {
    /// Checks shapes and types.
    pub fn check(&self) -> Result<(), OpError> {
        float("rms_norm", "x", self.x.dtype())?;
        shape("rms_norm", "weight", dims(&self.weight), (1, self.x.cols()))?;
        shape("rms_norm", "out", dims_mut(&self.out), dims(&self.x))
    }

    /// The meaning.
    pub fn reference(mut self) {
        for row in 0..self.x.rows() {
            let values: Vec<f32> = (0..self.x.cols())
                .map(|col| self.x.value(row, col))
                .collect();
            normalise(&values, self.weight, self.eps, |col, value| {
                self.out.set(row, col, value);
            });
        }
    }
}

/// residual = x + residual; out = normalise(residual) · weight.
///
/// x, residual, out: `[tokens, hidden]`; weight: `[1, hidden]`. Sums in f32, rounds once.
#[derive(Clone, Copy, Debug)]
pub struct AddRmsNorm<H: Handles> {
    /// What the last layer produced.
    pub x: H::In,
    /// The running sum; becomes x + residual.
    pub residual: H::InOut,
    /// One factor a column.
    pub weight: H::Vector,
    /// Keeps the root away from zero.
    pub eps: f32,
    /// Results.
    pub out: H::Out,
}

op_fields!(AddRmsNorm {
    x,
    residual,
    weight,
    eps,
    out
});

impl AddRmsNorm<Bound<'_>> {
    /// Checks shapes and types.
    pub fn check(&self) -> Result<(), OpError> {
        let op = "add_rms_norm";
        float(op, "x", self.x.dtype())?;
        shape(op, "residual", dims_mut(&self.residual), dims(&self.x))?;
        shape(op, "weight", dims(&self.weight), (1, self.x.cols()))?;
        shape(op, "out", dims_mut(&self.out), dims(&self.x))
    }

    /// The meaning.
    pub fn reference(mut self) {
        for row in 0..self.x.rows() {
            let values: Vec<f32> = (0..self.x.cols())
                .map(|col| self.x.value(row, col) + self.residual.value(row, col))
                .collect();
            for (col, &value) in values.iter().enumerate() {
                self.residual.set(row, col, value);
            }
            normalise(&values, self.weight, self.eps, |col, value| {
                self.out.set(row, col, value);
            });
        }
    }
}

/// One row of a root-mean-square normalisation.
pub(super) fn normalise(
    values: &[f32],
    weight: View<'_>,
    eps: f32,
    mut put: impl FnMut(usize, f32),
) {
    let squares: f64 = values.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
    let factor = 1.0 / (squares / values.len() as f64 + f64::from(eps)).sqrt();
    for (col, &value) in values.iter().enumerate() {
        put(
            col,
            (f64::from(value) * factor * f64::from(weight.value(0, col))) as f32,
        );
    }
}
