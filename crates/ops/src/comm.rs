//! What the ranks of one model do together. Each rank runs its own part of a step; at some points of it all of them meet.

use tensor::{View, ViewMut};

use crate::op::{dims, dims_mut, float, shape, typed};
use crate::{Device, OpError};

/// One rank's place among the ranks of a model.
///
/// All ranks call the same methods in the same order with the same shapes; what they call is enqueued in stream order, as
/// ops are, and may be captured like them.
pub trait Comm {
    /// Which rank this is.
    fn rank(&self) -> usize;

    /// How many there are.
    fn ranks(&self) -> usize;

    /// See [`AllReduce`].
    fn all_reduce(&self, op: AllReduce<'_>) -> Result<(), OpError>;

    /// See [`AllGather`].
    fn all_gather(&self, op: AllGather<'_>) -> Result<(), OpError>;
}

/// Adds up what all ranks have; every rank ends with the same bits.
///
/// values: any matrix of floats without gaps, of the same shape and type on every rank.
pub struct AllReduce<'a> {
    /// What this rank has, then the sum.
    pub values: ViewMut<'a>,
}

/// Lays the rows of all ranks below each other, rank by rank; every rank ends with all of them.
///
/// x: `[rows, width]` of any type; out: `[ranks × rows, width]` of the same type; both without gaps.
pub struct AllGather<'a> {
    /// What this rank has.
    pub x: View<'a>,
    /// What all ranks have.
    pub out: ViewMut<'a>,
}

impl AllReduce<'_> {
    /// Checks shape and type.
    pub fn check(&self) -> Result<(), OpError> {
        float("all_reduce", "values", self.values.dtype())?;
        whole("all_reduce", "stride of values", &self.values.view())
    }
}

impl AllGather<'_> {
    /// Checks shapes and types.
    pub fn check(&self, ranks: usize) -> Result<(), OpError> {
        typed("all_gather", "out", self.out.dtype(), self.x.dtype())?;
        let (rows, cols) = dims(&self.x);
        shape(
            "all_gather",
            "out",
            dims_mut(&self.out),
            (ranks * rows, cols),
        )?;
        whole("all_gather", "stride of x", &self.x)?;
        whole("all_gather", "stride of out", &self.out.view())
    }
}

/// Fails unless rows follow each other without gaps.
fn whole(op: &'static str, what: &'static str, view: &View<'_>) -> Result<(), OpError> {
    if view.is_contiguous() {
        return Ok(());
    }
    shape(op, what, (view.rows(), view.stride()), dims(view))
}

/// The only rank of a model, on its device.
pub struct Alone<'d>(pub &'d dyn Device);

impl Comm for Alone<'_> {
    fn rank(&self) -> usize {
        0
    }

    fn ranks(&self) -> usize {
        1
    }

    fn all_reduce(&self, op: AllReduce<'_>) -> Result<(), OpError> {
        op.check()
    }

    fn all_gather(&self, op: AllGather<'_>) -> Result<(), OpError> {
        op.check(1)?;
        Ok(self.0.copy(op.x, op.out)?)
    }
}

#[cfg(test)]
mod tests {
    use tensor::{Buffer, DType};

    use super::*;

    #[test]
    fn what_does_not_fit_is_named() {
        let mut buffer = Buffer::host(1024);
        let ints = AllReduce {
            values: buffer.view_mut(0, 2, 4, DType::U32),
        };
        let said = ints.check().unwrap_err().to_string();
        assert_eq!(said, "all_reduce: values has type U32");
        let gaps = AllReduce {
            values: buffer.view_mut(0, 2, 8, DType::F32).columns(0..5),
        };
        let said = gaps.check().unwrap_err().to_string();
        assert_eq!(
            said,
            "all_reduce: stride of values is (2, 8), expected (2, 5)"
        );
        let from = Buffer::host(64);
        let short = AllGather {
            x: from.view(0, 2, 4, DType::F32),
            out: buffer.view_mut(0, 4, 4, DType::F32),
        };
        assert!(short.check(2).is_ok());
        let said = short.check(3).unwrap_err().to_string();
        assert_eq!(said, "all_gather: out is (4, 4), expected (6, 4)");
    }
}
