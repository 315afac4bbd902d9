use ops::{Inputs, LateNorm, NormState};
use tensor::{DType, Scope, View, ViewMut};

/// Normalised activations, or nearly so: see [`NormState`].
pub(crate) struct Normed<'a> {
    pub(crate) values: ViewMut<'a>,
    pub(crate) squares: ViewMut<'a>,
    state: NormState,
    /// What keeps the root away from zero.
    eps: f32,
}

/// The same, to be read.
#[derive(Clone, Copy)]
pub(crate) struct NormedView<'a> {
    pub(crate) values: View<'a>,
    pub(crate) inputs: Inputs<'a>,
}

impl<'a> Normed<'a> {
    pub(crate) fn new(values: ViewMut<'a>, scope: &'a Scope<'_>) -> Self {
        let parts = values.cols().div_ceil(LateNorm::PART);
        Self {
            squares: scope.matrix(values.rows(), parts, DType::F32),
            values,
            state: NormState::Done,
            eps: 0.0,
        }
    }

    pub(crate) fn set(&mut self, state: NormState, eps: f32) {
        (self.state, self.eps) = (state, eps);
    }

    pub(crate) fn view(&self) -> NormedView<'_> {
        NormedView {
            values: self.values.view(),
            inputs: self.state.inputs(LateNorm {
                squares: self.squares.view(),
                width: self.values.cols(),
                eps: self.eps,
            }),
        }
    }
}
