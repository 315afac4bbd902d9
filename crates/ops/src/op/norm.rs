use tensor::{View, ViewMut};

use super::{dims, dims_mut, float, shape};
use crate::OpError;

/// out = x / √(mean(x²) + eps) · weight, row by row.
///
/// x, out: `[tokens, hidden]`; weight: `[1, hidden]`. Sums in f32, rounds once.
pub struct RmsNorm<'a> {
    /// Inputs.
    pub x: View<'a>,
    /// One factor a column.
    pub weight: View<'a>,
    /// Keeps the root away from zero.
    pub eps: f32,
    /// Results.
    pub out: ViewMut<'a>,
}

impl RmsNorm<'_> {
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
pub struct AddRmsNorm<'a> {
    /// What the last layer produced.
    pub x: View<'a>,
    /// The running sum; becomes x + residual.
    pub residual: ViewMut<'a>,
    /// One factor a column.
    pub weight: View<'a>,
    /// Keeps the root away from zero.
    pub eps: f32,
    /// Results.
    pub out: ViewMut<'a>,
}

impl AddRmsNorm<'_> {
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
