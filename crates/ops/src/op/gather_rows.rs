use tensor::DType;

use super::{dims_mut, shape, typed};
use crate::handles::op_fields;
use crate::{Bound, Handles, OpError};

/// out\[i\] = x\[indices\[i\]\].
///
/// x: `[tokens, width]`; indices: `[1, n]` u32; out: `[n, width]` of the type of `x`.
#[derive(Clone, Copy, Debug)]
pub struct GatherRows<H: Handles> {
    /// Rows to choose from.
    pub x: H::In,
    /// Which ones.
    pub indices: H::In,
    /// Results.
    pub out: H::Out,
}

op_fields!(GatherRows { x, indices, out });

impl GatherRows<Bound<'_>> {
    /// Checks shapes and types.
    pub fn check(&self) -> Result<(), OpError> {
        typed("gather_rows", "indices", self.indices.dtype(), DType::U32)?;
        typed("gather_rows", "out", self.out.dtype(), self.x.dtype())?;
        shape(
            "gather_rows",
            "out",
            dims_mut(&self.out),
            (self.indices.cols(), self.x.cols()),
        )
    }

    /// The meaning.
    pub fn reference(mut self) {
        for (i, &index) in self.indices.row::<u32>(0).iter().enumerate() {
            for col in 0..self.x.cols() {
                self.out.set(i, col, self.x.value(index as usize, col));
            }
        }
    }
}
