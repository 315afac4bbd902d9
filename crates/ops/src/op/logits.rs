use tensor::{DType, View, ViewMut};

use super::{dims, dims_mut, shape, typed};
use crate::{OpError, SampleParams};

/// logits\[rows\[i\], tokens\[i\]\] += values\[i\]; minus infinity forbids a token.
///
/// rows, tokens: `[1, n]` u32; values: `[1, n]` f32; logits: `[sampled, vocabulary]` f32; no place twice.
pub struct EditLogits<'a> {
    /// Rows of `logits`.
    pub rows: View<'a>,
    /// Columns of `logits`.
    pub tokens: View<'a>,
    /// What is added.
    pub values: View<'a>,
    /// Changed in place.
    pub logits: ViewMut<'a>,
}

impl EditLogits<'_> {
    /// Checks shapes and types.
    pub fn check(&self) -> Result<(), OpError> {
        let op = "edit_logits";
        shape(op, "tokens", dims(&self.tokens), dims(&self.rows))?;
        shape(op, "values", dims(&self.values), dims(&self.rows))?;
        typed(op, "logits", self.logits.dtype(), DType::F32)
    }

    /// The meaning.
    pub fn reference(mut self) {
        for i in 0..self.rows.cols() {
            let (row, token) = (
                self.rows.row::<u32>(0)[i] as usize,
                self.tokens.row::<u32>(0)[i] as usize,
            );
            self.logits.row_mut::<f32>(row)[token] += self.values.row::<f32>(0)[i];
        }
    }
}

/// Lowers the logits of tokens that a sequence has produced already.
///
/// For a token counted c > 0 times: the logit is divided by `repetition` when positive and multiplied when negative,
/// then c · frequency + presence is subtracted. counts: `[max rows, vocabulary]` u16; table_rows: `[1, sampled]` u32;
/// params: `[sampled, size of SampleParams]` u8; logits: `[sampled, vocabulary]` f32.
pub struct Penalise<'a> {
    /// How often each row produced each token.
    pub counts: View<'a>,
    /// The row of `counts` of each row of `logits`.
    pub table_rows: View<'a>,
    /// One [`SampleParams`] a row.
    pub params: View<'a>,
    /// Changed in place.
    pub logits: ViewMut<'a>,
}

impl Penalise<'_> {
    /// Checks shapes and types.
    pub fn check(&self) -> Result<(), OpError> {
        let (op, sampled) = ("penalise", self.logits.rows());
        typed(op, "logits", self.logits.dtype(), DType::F32)?;
        typed(op, "counts", self.counts.dtype(), DType::U16)?;
        shape(
            op,
            "counts",
            dims(&self.counts),
            (self.counts.rows(), self.logits.cols()),
        )?;
        shape(op, "table_rows", dims(&self.table_rows), (1, sampled))?;
        shape(
            op,
            "params",
            dims(&self.params),
            (sampled, SampleParams::BYTES),
        )?;
        shape(
            op,
            "logits",
            dims_mut(&self.logits),
            (sampled, self.counts.cols()),
        )
    }

    /// The meaning.
    pub fn reference(mut self) {
        for row in 0..self.logits.rows() {
            let params = SampleParams::read(&self.params, row);
            if !params.penalises() {
                continue;
            }
            let counts = self
                .counts
                .row::<u16>(self.table_rows.row::<u32>(0)[row] as usize);
            for (logit, &count) in self.logits.row_mut::<f32>(row).iter_mut().zip(counts) {
                if count > 0 {
                    *logit = params.penalised(*logit, count);
                }
            }
        }
    }
}
