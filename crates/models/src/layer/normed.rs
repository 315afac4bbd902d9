use ops::{LateNorm, NormState};
use tensor::{DType, Scope, View, ViewMut};

/// Normalised activations, or nearly so: see [`LateNorm`].
pub(crate) struct Normed<'a> {
    pub(crate) values: ViewMut<'a>,
    pub(crate) squares: ViewMut<'a>,
    /// What keeps the root away from zero, while rows lack their factor.
    late: Option<f32>,
}

/// The same, to be read.
#[derive(Clone, Copy)]
pub(crate) struct NormedView<'a> {
    pub(crate) values: View<'a>,
    pub(crate) late: Option<LateNorm<'a>>,
}

impl<'a> Normed<'a> {
    pub(crate) fn new(values: ViewMut<'a>, scope: &'a Scope<'_>) -> Self {
        let parts = values.cols().div_ceil(LateNorm::PART);
        Self {
            squares: scope.matrix(values.rows(), parts, DType::F32),
            values,
            late: None,
        }
    }

    pub(crate) fn set(&mut self, state: NormState, eps: f32) {
        self.late = (state == NormState::Late).then_some(eps);
    }

    pub(crate) fn view(&self) -> NormedView<'_> {
        NormedView {
            values: self.values.view(),
            late: self.late.map(|eps| LateNorm {
                squares: self.squares.view(),
                width: self.values.cols(),
                eps,
            }),
        }
    }
}
