//! Where products read folded weights: they are timed beside what is taken otherwise, once for every shape.

use ops::DeviceError;

use super::super::timing::{Bench, Between};
use super::{DeviceWeight, FoldedChoice, MOST_ROWS, Product, Products};
use crate::linear::{Shape, Way, locked};
use crate::options::ProductChoice;

impl Products {
    /// Times products with a weight that is folded, `[outputs, inputs]`, where that was not done for its shape.
    pub(super) fn choose_folded(
        &self,
        weight: &DeviceWeight,
        shape: (usize, usize),
        most_rows: usize,
    ) -> Result<(), DeviceError> {
        let mut shapes = Shape::all(shape, most_rows.min(MOST_ROWS));
        shapes.retain(|shape| {
            let chosen = locked(&self.chosen);
            chosen
                .get(shape)
                .is_some_and(|choice| choice.folded.is_none())
        });
        if shapes.is_empty() {
            return Ok(());
        }
        let others = self.others(shape.0, shape.1)?;
        for other in &others {
            if let Some(folded) = self.fold_buffer(&other.buffer, shape)? {
                let _ = other.folded.set(folded);
            }
        }
        let weights = std::iter::once(weight).chain(&others);
        let weights = weights.filter(|weight| weight.folded.get().is_some());
        self.time_shapes(&shapes, weights.collect(), |shape, product, bench| {
            let folded = self.fastest_folded(shape, product, bench)?;
            if let Some(choice) = locked(&self.chosen).get_mut(&shape) {
                choice.folded = Some(folded);
            }
            Ok(())
        })
    }

    fn fastest_folded(
        &self,
        shape: Shape,
        product: &mut Product<'_>,
        bench: &Bench<'_, DeviceWeight>,
    ) -> Result<FoldedChoice, DeviceError> {
        let Some(others) = locked(&self.chosen).get(&shape).copied() else {
            return Ok(FoldedChoice::default());
        };
        let variants = self.stream().folded_variants(product);
        let ways = variants.into_iter().map(Way::Stream);
        let Some((fused, way @ Way::Stream(variant))) =
            self.shortest(product, bench, ways, Between::Nothing)?
        else {
            return Ok(FoldedChoice::default());
        };
        let alone = self.time(product, bench, &way, f32::INFINITY, Between::Neighbour)?;
        let taken = |time: f32, others: f32| {
            let is_taken = match self.choice {
                ProductChoice::Fastest => time < others,
                ProductChoice::Own => true,
                ProductChoice::Library => false,
            };
            is_taken.then_some(variant)
        };
        Ok(FoldedChoice {
            alone: taken(alone, others.own.min(others.blas)),
            fused: taken(fused, others.fused.min(others.blas)),
        })
    }
}
