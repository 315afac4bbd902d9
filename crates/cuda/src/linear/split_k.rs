//! Split-K by two: the norm after a GEMM adds the two partial sums.
//!
//! A few hundred rows and few outputs make fewer tiles than there are SMs. cuBLASLt then splits K and reduces by a kernel of its
//! own; here a strided batch of two GEMMs is enqueued, and the norm reads one more matrix.

use std::sync::Arc;

use ops::{DeviceError, Weight};
use tensor::{Buffer, DType, View};

use super::blas::{CANDIDATES, Factors};
use super::timing::{Bench, Between, TimedCandidate};
use super::{Algorithm, Candidate, DeviceWeight, Gemm, Gemms, Shape, locked};
use crate::context::Context;
use crate::launch::norm::NormParams;
use crate::memory::allocate;
use crate::module::{Function, Modules};
use crate::options::GemmChoice;

/// More rows make enough tiles.
const MOST_ROWS: usize = 256;
/// Most results of a row: those that a norm takes by 16-byte vectors.
const WIDEST: usize = 8192;
/// Fewer inputs are not worth splitting.
const FEWEST_INPUTS: usize = 256;

/// Memory for partial sums, and the norms after one GEMM and after two.
pub(super) struct SplitK {
    sums: Buffer,
    norms: [Function; 2],
    units: usize,
}

impl SplitK {
    pub(super) fn new(
        context: &Arc<Context>,
        modules: &Modules,
        units: usize,
    ) -> Result<Self, DeviceError> {
        let bytes = 2 * MOST_ROWS * WIDEST * DType::BF16.size();
        Ok(Self {
            sums: allocate(context, bytes, "split-K sums")?,
            norms: [
                modules.find("add_rms_norm_short")?,
                modules.find("add_split_k_norm_short")?,
            ],
            units,
        })
    }

    /// True when a GEMM of this shape can be split. GEMMs before a norm are seldom wider than their inputs.
    fn take(shape: &Shape) -> bool {
        shape.bucket <= MOST_ROWS
            && (shape.outputs..).contains(&shape.inputs)
            && shape.outputs <= WIDEST
            && shape.inputs >= FEWEST_INPUTS
            && shape.inputs.is_multiple_of(16)
            && shape.outputs.is_multiple_of(8)
            && !shape.wide
            && !shape.bias
    }

    /// Partial sums of the first half of K, `[rows, outputs]`; those of the second half follow.
    fn sums(&self, gemm: &Gemm<'_>) -> View<'_> {
        let (rows, outputs) = (gemm.x.rows(), gemm.out.cols());
        self.sums.view(0, rows, outputs, DType::BF16)
    }

    fn factors(&self) -> Factors<'static> {
        Factors::SplitK(self.sums.address() as u64)
    }
}

/// How a GEMM and the norm after it are computed.
#[derive(Clone, Copy)]
struct NormedCandidate {
    algorithm: Algorithm,
    /// As two GEMMs instead of one.
    cut: bool,
}

impl TimedCandidate for NormedCandidate {
    type Weight = DeviceWeight;

    /// The norm's residual and results use whichever memory the sums do not.
    fn run(
        &self,
        gemms: &Gemms,
        gemm: &mut Gemm<'_>,
        weight: &DeviceWeight,
    ) -> Result<(), DeviceError> {
        let (sums, out) = (gemms.split_k.sums(gemm), gemm.out.view());
        let (x, other) = if self.cut { (sums, out) } else { (out, sums) };
        let other = (other.address() as u64, other.stride());
        let factor = gemm.x.cast(0, 1, gemm.out.cols(), DType::BF16);
        let norm = NormParams::new(x, factor, other, other, 1e-6);
        gemms.run_normed(gemm, weight, &norm, self)
    }

    fn is_library(&self) -> bool {
        true
    }
}

impl Gemms {
    /// The algorithm for split-K by two, where that and a norm take less time than one GEMM by `whole` and a norm.
    pub(super) fn faster_split_k(
        &self,
        gemm: &mut Gemm<'_>,
        bench: &Bench<'_, DeviceWeight>,
        whole: Algorithm,
    ) -> Result<Option<Algorithm>, DeviceError> {
        if !SplitK::take(&Shape::of(gemm)) {
            return Ok(None);
        }
        let factors = self.split_k.factors();
        // A shape that cuBLASLt does not take is no failure.
        let found = self.blas.candidates(gemm, factors, CANDIDATES);
        let cut = |algorithm| NormedCandidate {
            algorithm,
            cut: true,
        };
        let candidates = found.unwrap_or_default().into_iter().map(cut);
        let best = self.shortest(gemm, bench, candidates, Between::Nothing)?;
        let Some((time, NormedCandidate { algorithm, .. })) = best else {
            return Ok(None);
        };
        // Comparisons with cuBLASLt include its split-K.
        if self.choice == GemmChoice::Library {
            return Ok(Some(algorithm));
        }
        let whole = NormedCandidate {
            algorithm: whole,
            cut: false,
        };
        let whole = self.time(gemm, bench, &whole, f32::INFINITY, Between::Nothing)?;
        Ok((time < whole).then_some(algorithm))
    }

    /// Enqueues a GEMM with split-K by two and the norm of its sums, where that was faster; false where it was not.
    pub(crate) fn run_split_k(
        &self,
        gemm: &Gemm<'_>,
        weight: &Weight,
        norm: NormParams,
    ) -> Result<bool, DeviceError> {
        let Some(weight) = weight.layout::<DeviceWeight>() else {
            return Ok(false);
        };
        if !(gemm.rows_are_aligned() && norm.is_short()) {
            return Ok(false);
        }
        let algorithm = {
            let chosen = locked(&self.chosen);
            let choice = chosen.get(&Shape::of(gemm));
            let choice =
                choice.filter(|choice| matches!(choice.candidate_for(weight), Candidate::Blas(_)));
            choice.and_then(|choice| choice.split_k)
        };
        let Some(algorithm) = algorithm else {
            return Ok(false);
        };
        let norm = norm.with_rows(self.split_k.sums(gemm));
        let candidate = NormedCandidate {
            algorithm,
            cut: true,
        };
        self.run_normed(gemm, weight, &norm, &candidate)?;
        Ok(true)
    }

    /// One GEMM or two, and the norm of their sums.
    fn run_normed(
        &self,
        gemm: &Gemm<'_>,
        weight: &DeviceWeight,
        norm: &NormParams,
        candidate: &NormedCandidate,
    ) -> Result<(), DeviceError> {
        let split_k = &self.split_k;
        let factors = if candidate.cut {
            split_k.factors()
        } else {
            Factors::Plain
        };
        let address = weight.buffer.address() as u64;
        self.blas
            .enqueue(gemm, address, factors, &candidate.algorithm)?;
        let function = split_k.norms[usize::from(candidate.cut)];
        norm.launch(&self.context, function, split_k.units)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gemms_before_a_norm_are_split_where_sums_fit() {
        let of = |rows| Shape::plain((4096, 12288), rows).expect("few rows");
        let down = of(256);
        let with = |change: fn(&mut Shape)| {
            let mut shape = down;
            change(&mut shape);
            shape
        };
        for (shape, expected) in [
            (down, true),
            (of(257), false),
            (with(|shape| shape.outputs = 8192), true),
            (with(|shape| shape.outputs = 8200), false),
            (with(|shape| shape.inputs = 4096), true),
            (with(|shape| shape.inputs = 4080), false),
            (with(|shape| shape.inputs = 12_296), false),
            (
                with(|shape| (shape.outputs, shape.inputs) = (128, 240)),
                false,
            ),
            (down.biased(), false),
            (with(|shape| shape.wide = true), false),
        ] {
            assert_eq!(SplitK::take(&shape), expected, "{shape}");
        }
    }
}
