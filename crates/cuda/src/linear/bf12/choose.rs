//! Where GEMMs read bf12 weights: timed beside the other candidates, once for every shape.

use ops::DeviceError;

use super::super::timing::{Bench, Between};
use super::{Bf12Choice, DeviceWeight, Gemm, Gemms, MOST_ROWS};
use crate::linear::{Candidate, Shape, locked};
use crate::options::GemmChoice;

impl Gemms {
    /// Times GEMMs with a bf12 weight, `[outputs, inputs]`, where that was not done for its shape.
    pub(super) fn choose_bf12(
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
                .is_some_and(|choice| choice.bf12.is_none())
        });
        if shapes.is_empty() {
            return Ok(());
        }
        let others = self.others(shape.0, shape.1)?;
        for other in &others {
            if let Some(bf12) = self.encode_bf12_buffer(&other.buffer, shape)? {
                let _ = other.bf12.set(bf12);
            }
        }
        let weights = std::iter::once(weight).chain(&others);
        let weights = weights.filter(|weight| weight.bf12.get().is_some());
        self.time_shapes(&shapes, weights.collect(), |shape, gemm, bench| {
            let bf12 = self.fastest_bf12(shape, gemm, bench)?;
            if let Some(choice) = locked(&self.chosen).get_mut(&shape) {
                choice.bf12 = Some(bf12);
            }
            Ok(())
        })
    }

    fn fastest_bf12(
        &self,
        shape: Shape,
        gemm: &mut Gemm<'_>,
        bench: &Bench<'_, DeviceWeight>,
    ) -> Result<Bf12Choice, DeviceError> {
        let Some(others) = locked(&self.chosen).get(&shape).copied() else {
            return Ok(Bf12Choice::default());
        };
        let variants = self.own().bf12_variants(gemm);
        let candidates = variants.into_iter().map(Candidate::Own);
        let Some((fused, candidate @ Candidate::Own(variant))) =
            self.shortest(gemm, bench, candidates, Between::Nothing)?
        else {
            return Ok(Bf12Choice::default());
        };
        let alone = self.time(gemm, bench, &candidate, f32::INFINITY, Between::Neighbour)?;
        let taken = |time: f32, others: f32| {
            let is_taken = match self.choice {
                GemmChoice::Fastest => time < others,
                GemmChoice::Own => true,
                GemmChoice::Library => false,
            };
            is_taken.then_some(variant)
        };
        Ok(Bf12Choice {
            alone: taken(alone, others.own.min(others.blas)),
            fused: taken(fused, others.fused.min(others.blas)),
        })
    }
}
