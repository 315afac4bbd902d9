use ops::{HeadNorm, Kernels, OpError, RmsNorm};
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

    pub(crate) fn weight(&self) -> View<'_> {
        self.weight.view(0, 1, self.width, DType::F32)
    }

    pub(crate) fn eps(&self) -> f32 {
        self.eps
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
