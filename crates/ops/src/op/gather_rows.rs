use tensor::{DType, View, ViewMut};

use super::{dims_mut, shape, typed};
use crate::OpError;

/// out\[i\] = x\[indices\[i\]\].
///
/// x: `[tokens, width]`; indices: `[1, n]` u32; out: `[n, width]` of the type of `x`.
pub struct GatherRows<'a> {
    /// Rows to choose from.
    pub x: View<'a>,
    /// Which ones.
    pub indices: View<'a>,
    /// Results.
    pub out: ViewMut<'a>,
}

impl GatherRows<'_> {
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
