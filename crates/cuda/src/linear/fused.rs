//! GEMMs that do the work of the small kernels around them.

use ops::{DeviceError, Weight};

use super::cluster::Cluster;
use super::{Candidate, DeviceWeight, Epilogue, Float8Weight, Gemm, Gemms, Shape, Variant, locked};
use crate::lower::DeferredScale;
use crate::options::GemmChoice;

/// A weight, and the shape of our kernel for its GEMMs.
#[derive(Clone, Copy)]
pub(crate) enum Fusable<'w> {
    Plain(&'w DeviceWeight, Variant),
    Float8(&'w Float8Weight, Cluster),
}

impl Gemms {
    /// True when GEMMs of few rows go into the megakernel.
    pub(crate) fn prefers_megakernel(&self) -> bool {
        self.choice != GemmChoice::Library
    }

    /// Our kernel for a GEMM of `rows` rows, where it is preferred: for any fused work, or for gates alone.
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
        layout.aligned.then_some(Fusable::Plain(layout, variant))
    }

    /// Our kernel, where it takes no longer than cuBLASLt and a small kernel.
    fn plain_fusable(&self, shape: Shape, gates: bool, weight: &DeviceWeight) -> Option<Variant> {
        let chosen = locked(&self.chosen);
        let choice = chosen.get(&shape)?;
        if let Some(variant) = choice.bf12_for(weight).fused {
            return Some(variant);
        }
        let faster = match (choice.gates, self.choice) {
            (Some(preferred), _) => gates && preferred,
            (None, GemmChoice::Fastest) => choice.fused <= choice.blas,
            (None, GemmChoice::Own) => true,
            (None, GemmChoice::Library) => false,
        };
        choice.variant.filter(|_| faster)
    }

    /// Enqueues a GEMM with an argmax epilogue, where reading the weight as bf12 is preferred; false where it is not.
    pub(crate) fn run_argmax(
        &self,
        gemm: &Gemm<'_>,
        weight: &Weight,
        norm: Option<DeferredScale<'_>>,
        keys: u64,
    ) -> Result<bool, DeviceError> {
        let fusable = self.fusable(weight, gemm.x.rows(), false);
        let Some(Fusable::Plain(weight, Variant::Bf12(_))) = fusable else {
            return Ok(false);
        };
        let (kernels, bf12) = (self.own().bf12(), weight.bf12_buffer());
        kernels.run_argmax(&self.context, gemm, bf12, norm, keys)?;
        Ok(true)
    }

    /// Enqueues a GEMM by one of our kernels' candidates; says which, or none where there are fewer.
    pub(crate) fn run_own(
        &self,
        number: usize,
        gemm: &Gemm<'_>,
        weight: &DeviceWeight,
    ) -> Result<Option<String>, DeviceError> {
        let variants = self.variants(gemm);
        let Some(&variant) = variants.get(number) else {
            return Ok(None);
        };
        self.run_candidate(gemm, weight, &Candidate::Own(variant))?;
        Ok(Some(format!("{variant:?}")))
    }

    /// Enqueues a GEMM that is [fusable](Self::fusable); inputs and results are 16-byte aligned.
    pub(crate) fn run_fused(
        &self,
        gemm: &Gemm<'_>,
        fusable: Fusable<'_>,
        norm: Option<DeferredScale<'_>>,
        epilogue: &Epilogue<'_>,
    ) -> Result<(), DeviceError> {
        match fusable {
            Fusable::Plain(weight, timed) => {
                let how = (norm, epilogue);
                let short = self.short(gemm).filter(|_| !epilogue.is_gated());
                let variant = short.unwrap_or(timed);
                self.own().run(&self.context, variant, gemm, weight, how)
            }
            Fusable::Float8(weight, variant) => {
                self.run_float8_fused(gemm, weight, variant, norm, epilogue)
            }
        }
    }
}
