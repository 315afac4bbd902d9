use ops::{
    Activation, Form, GatedActivation, GatedLinear, Inputs, Kernels, Linear, LinearAddNorm,
    OpError, Weight,
};
use tensor::{Buffer, View, ViewMut};

use crate::layer::{Norm, NormedView, Stream};

/// Matrices side by side on one input, and perhaps a bias.
///
/// There are several only where their formats differ: files of mixed precision keep each as exact and small as it is.
pub(crate) struct Projection {
    weights: Vec<Weight>,
    /// Of the type of activations.
    bias: Option<Buffer>,
    width: usize,
}

/// What comes next where a projection's results go onto the residual.
#[derive(Clone, Copy)]
pub(crate) struct Onward<'a> {
    /// Makes it ready to be read.
    pub(crate) norm: &'a Norm,
    /// What multiplies the normalised rows; nothing when something else reads them.
    pub(crate) readers: &'a [Weight],
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

    pub(crate) fn weights(&self) -> &[Weight] {
        &self.weights
    }

    fn bias(&self, x: View<'_>) -> Option<View<'_>> {
        let bias = self.bias.as_ref()?;
        Some(bias.view(0, 1, self.width, x.dtype()))
    }

    pub(crate) fn forward(
        &self,
        kernels: &dyn Kernels,
        x: NormedView<'_>,
        mut out: ViewMut<'_>,
    ) -> Result<(), OpError> {
        let bias = self.bias(x.values);
        let mut start = 0;
        for weight in &self.weights {
            let columns = start..start + weight.rows();
            start = columns.end;
            let product = Linear {
                x: x.values,
                weight,
                bias: bias.map(|bias| bias.columns(columns.clone())),
                out: out.reborrow().columns(columns),
            };
            x.inputs.multiply(kernels, product)?;
        }
        Ok(())
    }

    /// activation(gate) · up, where the projection gives gate and up; they may stay behind in `gate_up`. Says in what form
    /// results are, which only `readers` multiply.
    pub(crate) fn forward_gated(
        &self,
        kernels: &dyn Kernels,
        x: NormedView<'_>,
        activation: Activation,
        mut gate_up: ViewMut<'_>,
        (out, readers): (ViewMut<'_>, &[Weight]),
    ) -> Result<Form, OpError> {
        if let [weight] = self.weights.as_slice() {
            return kernels.gated_linear(GatedLinear {
                product: Linear {
                    x: x.values,
                    weight,
                    bias: self.bias(x.values),
                    out: gate_up,
                },
                inputs: x.inputs,
                activation,
                out,
                readers,
            });
        }
        self.forward(kernels, x, gate_up.reborrow())?;
        kernels.gated_activation(GatedActivation {
            gate_up: gate_up.view(),
            activation,
            out,
        })?;
        Ok(Form::Plain)
    }

    /// Adds the results to the residual and normalises the sum.
    pub(crate) fn forward_onward(
        &self,
        kernels: &dyn Kernels,
        (x, inputs): (View<'_>, Inputs<'_>),
        stream: &mut Stream<'_>,
        onward: Onward<'_>,
    ) -> Result<(), OpError> {
        let [weight] = self.weights.as_slice() else {
            unreachable!("a layer ends with one matrix")
        };
        let (norm, normed) = (onward.norm, &mut stream.normed);
        let state = kernels.linear_add_norm(LinearAddNorm {
            product: Linear {
                x,
                weight,
                bias: self.bias(x),
                out: stream.delta.reborrow(),
            },
            inputs,
            residual: stream.residual.reborrow(),
            weight: norm.weight(),
            eps: norm.eps(),
            out: normed.values.reborrow(),
            squares: normed.squares.reborrow(),
            readers: onward.readers,
        })?;
        normed.set(state, norm.eps());
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
