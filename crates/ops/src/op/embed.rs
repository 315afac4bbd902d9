use tensor::DType;

use super::{dims_mut, float, shape, typed};
use crate::handles::op_fields;
use crate::{Bound, Handles, OpError};

/// out\[i\] = table\[ids\[i\]\] × scale.
///
/// ids: `[1, tokens]` u32; table: `[vocabulary, hidden]`; out: `[tokens, hidden]`.
#[derive(Clone, Copy, Debug)]
pub struct Embed<H: Handles> {
    /// Token ids, all below the vocabulary's size.
    pub ids: H::In,
    /// One row a token.
    pub table: H::Weight,
    /// Factor of every row.
    pub scale: f32,
    /// The embeddings.
    pub out: H::Out,
}

op_fields!(Embed {
    ids,
    table,
    scale,
    out
});

impl Embed<Bound<'_>> {
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
                self.out.set(i, col, value * self.scale);
            }
        }
    }
}
