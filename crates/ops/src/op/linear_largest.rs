use tensor::{DType, View, ViewMut};

use super::{Inputs, Linear, Sample, SampleParams, dims, dims_mut, shape, typed};
use crate::{Kernels, OpError};

/// The rest of a [`Sample`] whose logits somebody else knows.
pub struct Draw<'a> {
    /// One [`SampleParams`] a row.
    pub params: View<'a>,
    /// Output position of each row.
    pub positions: View<'a>,
    /// The row of `last` of each row.
    pub table_rows: View<'a>,
    /// The drawn tokens.
    pub out: ViewMut<'a>,
    /// The last token of every row; those of `table_rows` change.
    pub last: ViewMut<'a>,
}

impl<'a> Draw<'a> {
    /// From these logits.
    pub fn from(self, logits: View<'a>) -> Sample<'a> {
        Sample {
            logits,
            params: self.params,
            positions: self.positions,
            table_rows: self.table_rows,
            out: self.out,
            last: self.last,
        }
    }
}

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
        let (op, rows, draw) = ("linear_largest", self.product.x.rows(), &self.draw);
        self.product.check()?;
        typed(op, "scores", self.product.out.dtype(), DType::F32)?;
        self.inputs.check(op, rows)?;
        shape(
            op,
            "params",
            dims(&draw.params),
            (rows, SampleParams::BYTES),
        )?;
        shape(op, "positions", dims(&draw.positions), (1, rows))?;
        shape(op, "table_rows", dims(&draw.table_rows), (1, rows))?;
        shape(op, "out", dims_mut(&draw.out), (1, rows))?;
        typed(op, "last", draw.last.dtype(), DType::U32)
    }

    /// Runs the two ops that it stands for.
    pub fn compose<K: Kernels + ?Sized>(self, kernels: &K) -> Result<(), OpError> {
        let mut product = self.product;
        self.inputs.multiply(kernels, product.reborrow())?;
        kernels.sample(self.draw.from(product.out.view()))
    }
}
