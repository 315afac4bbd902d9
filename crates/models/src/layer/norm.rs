use ops::{AddRmsNorm, HeadNorm, Kernels, OpError, RmsNorm};
use tensor::{Buffer, DType, View, ViewMut};

/// A root-mean-square normalisation.
pub(crate) struct Norm {
    weight: Buffer,
    width: usize,
    eps: f32,
}

impl Norm {
    pub(crate) fn new(weight: Buffer, width: usize, eps: f32) -> Self {
        Self { weight, width, eps }
    }

    fn weight(&self) -> View<'_> {
        self.weight.view(0, 1, self.width, DType::F32)
    }

    pub(crate) fn forward(
        &self,
        kernels: &dyn Kernels,
        x: View<'_>,
        out: ViewMut<'_>,
    ) -> Result<(), OpError> {
        kernels.rms_norm(RmsNorm {
            x,
            weight: self.weight(),
            eps: self.eps,
            out,
        })
    }

    /// Adds `x` to the residual and normalises the sum.
    pub(crate) fn forward_add(
        &self,
        kernels: &dyn Kernels,
        x: View<'_>,
        residual: ViewMut<'_>,
        out: ViewMut<'_>,
    ) -> Result<(), OpError> {
        kernels.add_rms_norm(AddRmsNorm {
            x,
            residual,
            weight: self.weight(),
            eps: self.eps,
            out,
        })
    }

    /// The same as a part of another op.
    pub(crate) fn as_head_norm(&self) -> HeadNorm<'_> {
        HeadNorm {
            weight: self.weight(),
            eps: self.eps,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.weight.bytes()
    }
}
