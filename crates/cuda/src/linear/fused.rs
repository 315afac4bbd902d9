//! Products that do the work of the small kernels around them.

use ops::{DeviceError, LateNorm, Weight};

use super::team::Team;
use super::{DeviceWeight, Ending, Float8Weight, Product, Products, Shape, Variant, Way, locked};
use crate::options::ProductChoice;

/// A weight, and the shape of our kernel for its products.
#[derive(Clone, Copy)]
pub(crate) enum Fusable<'w> {
    Plain(&'w DeviceWeight, Variant),
    Float8(&'w Float8Weight, Team),
}

impl Products {
    /// True when products of few rows go into chains.
    pub(crate) fn prefers_chains(&self) -> bool {
        self.choice != ProductChoice::Library
    }

    /// How our kernels multiply so many rows with a weight, where they are to be preferred: for any work around the product, or
    /// for gates alone.
    pub(crate) fn fusable<'w>(
        &self,
        weight: &'w Weight,
        rows: usize,
        gates: bool,
    ) -> Option<Fusable<'w>> {
        if rows == 0 {
            return None;
        }
        if let Some(layout) = weight.layout::<Float8Weight>() {
            let variant = self.float8_fusable(layout, rows)?;
            return Some(Fusable::Float8(layout, variant));
        }
        let layout = weight.layout::<DeviceWeight>()?;
        let shape = Shape::usual((weight.rows(), weight.cols()), rows)?;
        let variant = self.plain_fusable(shape, gates, layout)?;
        layout.streams.then_some(Fusable::Plain(layout, variant))
    }

    /// The shape of our kernel, where it takes no longer than cuBLASLt and a small kernel.
    fn plain_fusable(&self, shape: Shape, gates: bool, weight: &DeviceWeight) -> Option<Variant> {
        let chosen = locked(&self.chosen);
        let choice = chosen.get(&shape)?;
        if let Some(variant) = choice.folded_for(weight).fused {
            return Some(variant);
        }
        let faster = match (choice.gates, self.choice) {
            (Some(preferred), _) => gates && preferred,
            (None, ProductChoice::Fastest) => choice.fused <= choice.blas,
            (None, ProductChoice::Own) => true,
            (None, ProductChoice::Library) => false,
        };
        choice.variant.filter(|_| faster)
    }

    /// Enqueues a product of which keys of the largest results alone go to memory, where its folded weight is to be preferred; false
    /// where it is not.
    pub(crate) fn run_largest(
        &self,
        product: &Product<'_>,
        weight: &Weight,
        norm: Option<LateNorm<'_>>,
        keys: u64,
    ) -> Result<bool, DeviceError> {
        let fusable = self.fusable(weight, product.x.rows(), false);
        let Some(Fusable::Plain(weight, Variant::Folded(_))) = fusable else {
            return Ok(false);
        };
        let (folds, folded) = (self.stream().folds(), weight.folded_buffer());
        folds.run_largest(&self.context, product, folded, norm, keys)?;
        Ok(true)
    }

    /// Enqueues a product in one of the ways of our own kernels; says which, or nothing where there are fewer.
    pub(crate) fn run_own(
        &self,
        number: usize,
        product: &Product<'_>,
        weight: &DeviceWeight,
    ) -> Result<Option<String>, DeviceError> {
        let variants = self.variants(product);
        let Some(&variant) = variants.get(number) else {
            return Ok(None);
        };
        self.run_way(product, weight, &Way::Stream(variant))?;
        Ok(Some(format!("{variant:?}")))
    }

    /// Enqueues a product that is [fusable](Self::fusable); inputs and results are made of 16-byte pieces.
    pub(crate) fn run_fused(
        &self,
        product: &Product<'_>,
        fusable: Fusable<'_>,
        norm: Option<LateNorm<'_>>,
        ending: &Ending<'_>,
    ) -> Result<(), DeviceError> {
        match fusable {
            Fusable::Plain(weight, timed) => {
                let how = (norm, ending);
                let short = self.short(product).filter(|_| !ending.is_gated());
                let variant = short.unwrap_or(timed);
                self.stream()
                    .run(&self.context, variant, product, weight, how)
            }
            Fusable::Float8(weight, variant) => {
                self.run_float8_fused(product, weight, variant, norm, ending)
            }
        }
    }
}
