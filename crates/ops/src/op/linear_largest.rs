use tensor::DType;

use super::{Draw, Inputs, Linear, Sample, typed};
use crate::{Kernels, OpError};

/// Draws the token with the largest score, the lowest id among equals, of each row of a product.
///
/// As the product and a [`Sample`] of rows that are all of temperature zero; it is for the caller to know that they are. A
/// device may leave the product's own destination as it was.
pub struct LinearLargest<'a> {
    /// The product, into room for the scores of all tokens, `[rows, vocabulary]` f32.
    pub product: Linear<'a>,
    /// What its inputs are like.
    pub inputs: Inputs<'a>,
    /// Where tokens go.
    pub draw: Draw<'a>,
}

impl LinearLargest<'_> {
    /// Checks shapes and types.
    pub fn check(&self) -> Result<(), OpError> {
        let (op, rows) = ("linear_largest", self.product.x.rows());
        self.product.check()?;
        typed(op, "scores", self.product.out.dtype(), DType::F32)?;
        self.inputs.check(op, rows)?;
        self.draw.check(op, rows)
    }

    /// Runs the two ops that it stands for.
    pub fn compose<K: Kernels + ?Sized>(self, kernels: &K) -> Result<(), OpError> {
        let mut product = self.product;
        self.inputs.multiply(kernels, product.reborrow())?;
        kernels.sample(Sample {
            logits: product.out.view(),
            draw: self.draw,
        })
    }
}
