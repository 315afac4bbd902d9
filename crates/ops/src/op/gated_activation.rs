use super::{dims_mut, float, shape};
use crate::handles::op_fields;
use crate::{Bound, Handles, OpError};

/// The curve of a gated layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// x · sigmoid(x).
    Silu,
    /// The tanh form of the Gaussian error unit.
    GeluTanh,
}

impl Activation {
    /// Its value.
    pub fn apply(self, x: f64) -> f64 {
        match self {
            Self::Silu => x / (1.0 + (-x).exp()),
            Self::GeluTanh => {
                let inner = std::f64::consts::FRAC_2_PI.sqrt() * (x + 0.044_715 * x * x * x);
                0.5 * x * (1.0 + inner.tanh())
            }
        }
    }
}

/// out = activation(gate) · up, where gate_up holds gate in its first half and up in its second.
///
/// gate_up: `[tokens, 2 × width]`; out: `[tokens, width]`.
#[derive(Clone, Copy, Debug)]
pub struct GatedActivation<H: Handles> {
    /// Gate and up side by side.
    pub gate_up: H::In,
    /// Which curve.
    pub activation: Activation,
    /// Results.
    pub out: H::Out,
}

op_fields!(GatedActivation {
    gate_up,
    activation,
    out
});

impl GatedActivation<Bound<'_>> {
    /// Checks shapes and types.
    pub fn check(&self) -> Result<(), OpError> {
        float("gated_activation", "gate_up", self.gate_up.dtype())?;
        shape(
            "gated_activation",
            "out",
            dims_mut(&self.out),
            (self.gate_up.rows(), self.gate_up.cols() / 2),
        )
    }

    /// The meaning.
    pub fn reference(mut self) {
        let width = self.out.cols();
        for row in 0..self.out.rows() {
            for col in 0..width {
                let gate = self
                    .activation
                    .apply(f64::from(self.gate_up.value(row, col)));
                let up = f64::from(self.gate_up.value(row, width + col));
                self.out.set(row, col, (gate * up) as f32);
            }
        }
    }
}
