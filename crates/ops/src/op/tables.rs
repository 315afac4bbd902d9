use tensor::{DType, View, ViewMut};

use super::{dims, dims_mut, shape, typed};
use crate::handles::op_fields;
use crate::{Bound, Handles, OpError};

/// out\[i\] = staged\[i\], or the last token sampled for row r where staged\[i\] is [`ResolveTokens::LAST`] + r.
///
/// staged, out: `[1, tokens]` u32; last: `[1, max rows]` u32.
#[derive(Clone, Copy, Debug)]
pub struct ResolveTokens<H: Handles> {
    /// Tokens as the host knows them.
    pub staged: H::In,
    /// The last sampled token of every row.
    pub last: H::In,
    /// Tokens for the embedding.
    pub out: H::Out,
}

op_fields!(ResolveTokens { staged, last, out });

impl ResolveTokens<Bound<'_>> {
    /// Added to a row to mean "its last sampled token".
    pub const LAST: u32 = 1 << 31;

    /// Checks shapes and types.
    pub fn check(&self) -> Result<(), OpError> {
        let op = "resolve_tokens";
        shape(op, "out", dims_mut(&self.out), (1, self.staged.cols()))?;
        typed(op, "staged", self.staged.dtype(), DType::U32)?;
        typed(op, "last", self.last.dtype(), DType::U32)?;
        typed(op, "out", self.out.dtype(), DType::U32)
    }

    /// The meaning.
    pub fn reference(mut self) {
        let last = self.last.row::<u32>(0);
        for (out, &staged) in self
            .out
            .row_mut::<u32>(0)
            .iter_mut()
            .zip(self.staged.row::<u32>(0))
        {
            *out = if staged >= Self::LAST {
                last[(staged - Self::LAST) as usize]
            } else {
                staged
            };
        }
    }
}

/// table\[rows\[i\], columns\[i\]\] = pages\[i\].
///
/// rows, columns, pages: `[1, n]` u32; table: `[max rows, max pages]` u32.
pub struct UpdatePages<'a> {
    /// Rows to write.
    pub rows: View<'a>,
    /// Columns to write.
    pub columns: View<'a>,
    /// Pages to write there.
    pub pages: View<'a>,
    /// The page table.
    pub table: ViewMut<'a>,
}

impl UpdatePages<'_> {
    /// Checks shapes and types.
    pub fn check(&self) -> Result<(), OpError> {
        let op = "update_pages";
        shape(op, "columns", dims(&self.columns), dims(&self.rows))?;
        shape(op, "pages", dims(&self.pages), dims(&self.rows))?;
        typed(op, "table", self.table.dtype(), DType::U32)
    }

    /// The meaning.
    pub fn reference(mut self) {
        for i in 0..self.rows.cols() {
            let (row, column) = (self.rows.row::<u32>(0)[i], self.columns.row::<u32>(0)[i]);
            self.table.row_mut::<u32>(row as usize)[column as usize] = self.pages.row::<u32>(0)[i];
        }
    }
}

/// Clears the counts of some rows, then adds one to counts\[rows\[i\], tokens\[i\]\] (saturating).
///
/// clear: `[1, c]` u32; rows, tokens: `[1, n]` u32; counts: `[max rows, vocabulary]` u16.
pub struct CountTokens<'a> {
    /// Rows that start anew.
    pub clear: View<'a>,
    /// Whose count grows.
    pub rows: View<'a>,
    /// Which token was produced.
    pub tokens: View<'a>,
    /// How often each row produced each token.
    pub counts: ViewMut<'a>,
}

impl CountTokens<'_> {
    /// Checks shapes and types.
    pub fn check(&self) -> Result<(), OpError> {
        let op = "count_tokens";
        shape(op, "tokens", dims(&self.tokens), dims(&self.rows))?;
        typed(op, "counts", self.counts.dtype(), DType::U16)
    }

    /// The meaning.
    pub fn reference(mut self) {
        for &row in self.clear.elements::<u32>() {
            self.counts.row_mut::<u16>(row as usize).fill(0);
        }
        for (&row, &token) in self
            .rows
            .elements::<u32>()
            .iter()
            .zip(self.tokens.elements::<u32>())
        {
            let count = &mut self.counts.row_mut::<u16>(row as usize)[token as usize];
            *count = count.saturating_add(1);
        }
    }
}
