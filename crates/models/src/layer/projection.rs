use ops::{Kernels, Linear, OpError, Weight};
use tensor::{Buffer, DType, View, ViewMut};

/// A matrix and perhaps a bias.
pub(crate) struct Projection {
    weight: Weight,
    bias: Option<Buffer>,
}

impl Projection {
    pub(crate) fn new(weight: Weight, bias: Option<Buffer>) -> Self {
        Self { weight, bias }
    }

    pub(crate) fn forward(
        &self,
        kernels: &dyn Kernels,
        x: View<'_>,
        out: ViewMut<'_>,
    ) -> Result<(), OpError> {
        let bias = self
            .bias
            .as_ref()
            .map(|bias| bias.view(0, 1, self.weight.rows(), DType::F32));
        kernels.linear(Linear {
            x,
            weight: &self.weight,
            bias,
            out,
        })
    }

    /// Output features.
    pub(crate) fn width(&self) -> usize {
        self.weight.rows()
    }

    pub(crate) fn weight(&self) -> &Weight {
        &self.weight
    }

    pub(crate) fn bytes(&self) -> usize {
        self.weight.bytes() + self.bias.as_ref().map_or(0, Buffer::bytes)
    }
}
