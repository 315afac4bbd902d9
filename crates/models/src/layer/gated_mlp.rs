use ops::{Activation, OpError, Weight};

use crate::layer::{Onward, Projection, Stream};
use crate::loader::Loader;
use crate::{LoadError, ModelSpec, Step};

/// down(activation(gate(x)) · up(x)).
pub(crate) struct GatedMlp {
    gate_up: Projection,
    down: Projection,
    activation: Activation,
}

impl GatedMlp {
    pub(crate) fn load(
        loader: &Loader<'_>,
        prefix: &str,
        spec: &ModelSpec,
    ) -> Result<Self, LoadError> {
        let name = |part: &str| format!("{prefix}.{part}_proj");
        let inner = spec.feed_forward;
        let gate_up = [name("gate"), name("up")];
        Ok(Self {
            gate_up: loader.projection(
                &gate_up,
                (&[inner, inner], spec.hidden),
                spec.biases.mlp,
            )?,
            down: loader.projection(&[name("down")], (&[spec.hidden], inner), spec.biases.mlp)?,
            activation: spec.activation,
        })
    }

    pub(crate) fn forward(
        &self,
        step: &Step<'_>,
        stream: &mut Stream<'_>,
        onward: Onward<'_>,
    ) -> Result<(), OpError> {
        let scope = step.scratch.scope();
        let (tokens, width) = (stream.tokens(), self.gate_up.width());
        let gate_up = scope.matrix(tokens, width, step.dtype);
        let mut inner = scope.matrix(tokens, width / 2, step.dtype);
        let form = self.gate_up.forward_gated(
            step.kernels,
            stream.normed.view(),
            self.activation,
            gate_up,
            (inner.reborrow(), self.down.weights()),
        )?;
        let inner = (inner.view(), form.into());
        self.down
            .forward_onward(step.kernels, inner, stream, onward)
    }

    /// What reads normalised rows.
    pub(crate) fn readers(&self) -> &[Weight] {
        self.gate_up.weights()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.gate_up.bytes() + self.down.bytes()
    }
}
