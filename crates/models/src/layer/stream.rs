use ops::{GatherRows, Kernels, OpError};
use tensor::{Scope, View, ViewMut};

use crate::layer::Normed;

/// The residual stream of some tokens, and what the next piece reads of it.
pub(crate) struct Stream<'a> {
    pub(crate) residual: ViewMut<'a>,
    /// Room for what a layer's end adds.
    pub(crate) delta: ViewMut<'a>,
    pub(crate) normed: Normed<'a>,
}

impl<'a> Stream<'a> {
    /// Of as many tokens as `normed` has rows, which become the normalised ones.
    pub(crate) fn new(normed: ViewMut<'a>, scope: &'a Scope<'_>) -> Self {
        let room = || scope.matrix(normed.rows(), normed.cols(), normed.dtype());
        Self {
            residual: room(),
            delta: room(),
            normed: Normed::new(normed, scope),
        }
    }

    pub(crate) fn tokens(&self) -> usize {
        self.residual.rows()
    }

    /// Goes on where `all` has come to, for the tokens at these places alone.
    pub(crate) fn branch_off(
        &mut self,
        kernels: &dyn Kernels,
        all: &Stream<'_>,
        places: View<'_>,
    ) -> Result<(), OpError> {
        kernels.gather_rows(GatherRows {
            x: all.residual.view(),
            indices: places,
            out: self.residual.reborrow(),
        })
    }
}
