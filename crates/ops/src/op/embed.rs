use tensor::{DType, View, ViewMut};

use super::{dims_mut, float, shape, typed};
use crate::{OpError, Weight};

/// out\[i\] = table\[ids\[i\]\].
///
/// ids: `[1, tokens]` u32; table: `[vocabulary, hidden]`; out: `[tokens, hidden]`.
pub struct Embed<'a> {
    /// Token ids, all below the vocabulary's size.
    pub ids: View<'a>,
    /// One row a token.
    pub table: &'a Weight,
    /// The embeddings.
    pub out: ViewMut<'a>,
}

impl Embed<'_> {
    /// Checks shapes and types.
    pub fn check(&self) -> Result<(), OpError> {
        typed("embed", "ids", self.ids.dtype(), DType::U32)?;
        float("embed", "out", self.out.dtype())?;
        shape(
            "embed",
            "out",
            dims_mut(&self.out),
            (self.ids.cols(), self.table.cols()),
        )
    }

    /// The meaning, for a table given as plain numbers.
    pub fn reference(mut self, table: &[f32]) {
        let hidden = self.table.cols();
        for (i, &id) in self.ids.row::<u32>(0).iter().enumerate() {
            for (col, &value) in table[id as usize * hidden..][..hidden].iter().enumerate() {
                self.out.set(i, col, value);
            }
        }
    }
}
