use super::{LateLinear, LateNorm, Linear};
use crate::{Kernels, OpError};

/// In what form an op left rows that only products read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Numbers of the matrix's type.
    Plain,
    /// Whatever the device's own products with the readers take. Nothing else can tell what the matrix's memory holds.
    Packed,
}

/// A product whose inputs this device left [packed](Form::Packed) for it.
pub struct PackedLinear<'a> {
    /// The product.
    pub product: Linear<'a>,
}

impl PackedLinear<'_> {
    /// Checks shapes and types.
    pub fn check(&self) -> Result<(), OpError> {
        self.product.check()
    }
}

/// What the inputs of a product are like.
#[derive(Clone, Copy)]
pub enum Inputs<'a> {
    /// Numbers of the matrix's type.
    Plain,
    /// Their rows lack the factor of their normalisation.
    Late(LateNorm<'a>),
    /// See [`Form::Packed`].
    Packed,
}

impl From<Form> for Inputs<'_> {
    fn from(form: Form) -> Self {
        match form {
            Form::Plain => Self::Plain,
            Form::Packed => Self::Packed,
        }
    }
}

impl<'a> Inputs<'a> {
    pub(super) fn check(&self, op: &'static str, rows: usize) -> Result<(), OpError> {
        match self {
            Self::Late(norm) => norm.check(op, rows),
            Self::Plain | Self::Packed => Ok(()),
        }
    }

    /// Runs the op that takes such inputs.
    pub fn multiply<K: Kernels + ?Sized>(
        self,
        kernels: &K,
        product: Linear<'a>,
    ) -> Result<(), OpError> {
        match self {
            Self::Plain => kernels.linear(product),
            Self::Late(norm) => kernels.late_linear(LateLinear { product, norm }),
            Self::Packed => kernels.packed_linear(PackedLinear { product }),
        }
    }
}
