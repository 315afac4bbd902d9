use tensor::{DType, View, ViewMut};

use super::{dims, shape, typed};
use crate::OpError;

/// memory\[p, to\[i\] + t\] = memory\[p, from\[i\] + t\] for t below tokens\[i\] and every plane p: keys, or values, of one layer.
///
/// from, to, tokens: `[1, n]` u32; memory: `[planes × slots, width]`, whole rows one after the other. What is written
/// overlaps nothing that is read.
pub struct CopyPages<'a> {
    /// First slots to copy from.
    pub from: View<'a>,
    /// First slots to copy to.
    pub to: View<'a>,
    /// How many slots.
    pub tokens: View<'a>,
    /// Matrices of equally many slots in `memory`.
    pub planes: usize,
    /// Keys and values.
    pub memory: ViewMut<'a>,
}

impl CopyPages<'_> {
    /// Checks shapes and types.
    pub fn check(&self) -> Result<(), OpError> {
        let op = "copy_pages";
        shape(op, "to", dims(&self.to), dims(&self.from))?;
        shape(op, "tokens", dims(&self.tokens), dims(&self.from))?;
        let memory = &self.memory;
        let whole = (self.planes * self.slots(), memory.cols());
        shape(op, "memory", (memory.rows(), memory.stride()), whole)?;
        for (what, numbers) in [
            ("from", &self.from),
            ("to", &self.to),
            ("tokens", &self.tokens),
        ] {
            typed(op, what, numbers.dtype(), DType::U32)?;
        }
        Ok(())
    }

    /// Slots of a plane.
    pub fn slots(&self) -> usize {
        self.memory.rows() / self.planes.max(1)
    }

    /// The meaning.
    pub fn reference(mut self) {
        let slots = self.slots();
        for plane in 0..self.planes {
            for i in 0..self.from.cols() {
                let [from, to, tokens] =
                    [&self.from, &self.to, &self.tokens].map(|of| of.row::<u32>(0)[i] as usize);
                let memory = self.memory.reborrow();
                let (source, mut copy) =
                    apart(memory, plane * slots + from, plane * slots + to, tokens);
                for row in 0..tokens {
                    copy.row_bytes_mut(row)
                        .copy_from_slice(source.row_bytes(row));
                }
            }
        }
    }
}

/// Rows to read and as many others to write, of one matrix.
fn apart(matrix: ViewMut<'_>, from: usize, to: usize, rows: usize) -> (View<'_>, ViewMut<'_>) {
    let (upper, lower) = matrix.split_rows(from.max(to));
    let first = from.min(to);
    let upper = upper.row_range(first..first + rows);
    let lower = lower.row_range(0..rows);
    if from < to {
        (upper.into_view(), lower)
    } else {
        (lower.into_view(), upper)
    }
}
