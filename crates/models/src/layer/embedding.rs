use ops::{Embed, Kernels, Linear, OpError, Weight};
use tensor::{View, ViewMut};

use crate::layer::NormedView;

/// The table of token embeddings; tied models score tokens with it too.
pub(crate) struct Embedding {
    table: Weight,
}

impl Embedding {
    pub(crate) fn new(table: Weight) -> Self {
        Self { table }
    }

    pub(crate) fn weights(&self) -> &[Weight] {
        std::slice::from_ref(&self.table)
    }

    pub(crate) fn forward(
        &self,
        kernels: &dyn Kernels,
        ids: View<'_>,
        out: ViewMut<'_>,
    ) -> Result<(), OpError> {
        kernels.embed(Embed {
            ids,
            table: &self.table,
            out,
        })
    }

    /// Every token's score: its embedding times `x`.
    pub(crate) fn score(
        &self,
        kernels: &dyn Kernels,
        x: NormedView<'_>,
        out: ViewMut<'_>,
    ) -> Result<(), OpError> {
        let product = Linear {
            x: x.values,
            weight: &self.table,
            bias: None,
            out,
        };
        x.inputs.multiply(kernels, product)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.table.bytes()
    }
}
