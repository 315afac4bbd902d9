use ops::{Kernels, Linear, OpError, Weight};
use tensor::{Buffer, View, ViewMut};

/// Matrices side by side on one input, and perhaps a bias.
///
/// There are several only where their formats differ: files of mixed precision keep each as exact and small as it is.
pub(crate) struct Projection {
    weights: Vec<Weight>,
    /// Of the type of activations.
    bias: Option<Buffer>,
    width: usize,
}

impl Projection {
    pub(crate) fn new(weights: Vec<Weight>, bias: Option<Buffer>) -> Self {
        let width = weights.iter().map(Weight::rows).sum();
        Self {
            weights,
            bias,
            width,
        }
    }

    pub(crate) fn forward(
        &self,
        kernels: &dyn Kernels,
        x: View<'_>,
        mut out: ViewMut<'_>,
    ) -> Result<(), OpError> {
        let bias = self
            .bias
            .as_ref()
            .map(|bias| bias.view(0, 1, self.width, x.dtype()));
        let mut start = 0;
        for weight in &self.weights {
            let columns = start..start + weight.rows();
            start = columns.end;
            kernels.linear(Linear {
                x,
                weight,
                bias: bias.map(|bias| bias.columns(columns.clone())),
                out: out.reborrow().columns(columns),
            })?;
        }
        Ok(())
    }

    /// Output features.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn bytes(&self) -> usize {
        let weights: usize = self.weights.iter().map(Weight::bytes).sum();
        weights + self.bias.as_ref().map_or(0, Buffer::bytes)
    }
}
