use super::{dims, dims_mut, float, shape};
use crate::handles::op_fields;
use crate::{Bound, Handles, OpError};

/// out = x · weightᵀ + bias.
///
/// x: `[tokens, in]`; weight: `[out, in]`; bias: `[1, out]` of the type of `x`; out: `[tokens, out]`. Sums in f32 or wider, rounds once.
/// A row of the result depends on that row of `x` alone: on a CPU with the same bits in any batch, on a GPU within the rounding of another
/// order of summation, as other numbers of rows go other ways.
#[derive(Clone, Copy, Debug)]
pub struct Linear<H: Handles> {
    /// Inputs.
    pub x: H::In,
    /// The matrix.
    pub weight: H::Weight,
    /// Added to every row.
    pub bias: Option<H::Vector>,
    /// Results.
    pub out: H::Out,
}

op_fields!(Linear {
    x,
    weight,
    bias,
    out
});

impl Linear<Bound<'_>> {
    /// The same product, for someone whose results are read while this one is kept.
    pub fn reborrow(&mut self) -> Linear<Bound<'_>> {
        Linear {
            x: self.x,
            weight: self.weight,
            bias: self.bias,
            out: self.out.reborrow(),
        }
    }

    /// Checks shapes and types.
    pub fn check(&self) -> Result<(), OpError> {
        let op = "linear";
        float(op, "x", self.x.dtype())?;
        float(op, "out", self.out.dtype())?;
        shape(op, "x", dims(&self.x), (self.x.rows(), self.weight.cols()))?;
        shape(
            op,
            "out",
            dims_mut(&self.out),
            (self.x.rows(), self.weight.rows()),
        )?;
        match &self.bias {
            Some(bias) => shape(op, "bias", dims(bias), (1, self.weight.rows())),
            None => Ok(()),
        }
    }

    /// The meaning, for a weight given as plain numbers.
    pub fn reference(mut self, weight: &[f32]) {
        let inner = self.weight.cols();
        for row in 0..self.x.rows() {
            for col in 0..self.weight.rows() {
                let products = (0..inner)
                    .map(|k| f64::from(self.x.value(row, k)) * f64::from(weight[col * inner + k]));
                let bias = self.bias.map_or(0.0, |bias| f64::from(bias.value(0, col)));
                self.out
                    .set(row, col, (products.sum::<f64>() + bias) as f32);
            }
        }
    }
}
