//! GEMM autotuning: all candidates are timed when a weight of a new shape is loaded.

use ops::DeviceError;

use super::timing::{Bench, Between, SEED, TimedCandidate, others};
use super::{Candidate, Choice, DeviceWeight, Factors, Gemm, Gemms, Shape, Variant, blas, locked};
use crate::memory::allocate;
use crate::options::GemmChoice;

impl TimedCandidate for Candidate {
    type Weight = DeviceWeight;

    fn run(
        &self,
        gemms: &Gemms,
        gemm: &mut Gemm<'_>,
        weight: &DeviceWeight,
    ) -> Result<(), DeviceError> {
        gemms.run_candidate(gemm, weight, self)
    }

    fn is_library(&self) -> bool {
        matches!(self, Self::Blas(_))
    }
}

impl Gemms {
    /// Times all candidates for a weight of a new shape, `[outputs, inputs]`, with up to `most_rows` rows.
    pub(super) fn choose(
        &self,
        weight: &DeviceWeight,
        shape: (usize, usize),
        most_rows: usize,
    ) -> Result<(), DeviceError> {
        self.time_all(weight, Shape::all(shape, most_rows))
    }

    /// GEMMs of the weight, `[outputs, inputs]`, add a bias: those that are cuBLASLt's are timed with one as well.
    /// Ours cost the same with and without.
    pub(crate) fn expect_bias(
        &self,
        weight: &DeviceWeight,
        shape: (usize, usize),
        most_rows: usize,
    ) -> Result<(), DeviceError> {
        let library = |shape: &Shape| {
            let chosen = locked(&self.chosen);
            let choice = chosen.get(shape);
            choice.is_some_and(|choice| choice.candidate.is_library())
        };
        let shapes = Shape::all(shape, most_rows).into_iter();
        // cuBLASLt takes no bias where results are floats.
        let shapes = shapes.filter(|shape| !shape.wide && library(shape));
        self.time_all(weight, shapes.map(Shape::biased).collect())
    }

    /// Times those shapes of GEMMs with a weight that were not timed yet.
    fn time_all(&self, weight: &DeviceWeight, mut shapes: Vec<Shape>) -> Result<(), DeviceError> {
        shapes.retain(|shape| !locked(&self.chosen).contains_key(shape));
        let Some(&Shape {
            outputs, inputs, ..
        }) = shapes.first()
        else {
            return Ok(());
        };
        let began = std::time::Instant::now();
        let others = self.others(outputs, inputs)?;
        let weights = std::iter::once(weight).chain(&others).collect();
        self.time_shapes(&shapes, weights, |shape, gemm, bench| {
            let choice = self.fastest(gemm, bench)?;
            locked(&self.chosen).insert(shape, choice);
            Ok(())
        })?;
        let (seconds, with) = (
            began.elapsed().as_secs_f64(),
            if shapes[0].bias { " with a bias" } else { "" },
        );
        tracing::info!(
            "GEMM autotuning of weights [{outputs}, {inputs}]{with} took {seconds:.2} s"
        );
        Ok(())
    }

    /// Enough weights of the shape that the cache does not hold them all.
    pub(super) fn others(
        &self,
        outputs: usize,
        inputs: usize,
    ) -> Result<Vec<DeviceWeight>, DeviceError> {
        let bytes = 2 * outputs * inputs;
        (0..others(bytes))
            .map(|_| {
                let buffer = allocate(&self.context, bytes, "GEMM autotuning")?;
                self.invent(&buffer, outputs * inputs, SEED)?;
                Ok(DeviceWeight::new(buffer, true))
            })
            .collect()
    }

    fn fastest(
        &self,
        gemm: &mut Gemm<'_>,
        bench: &Bench<'_, DeviceWeight>,
    ) -> Result<Choice, DeviceError> {
        let variants = self.variants(gemm);
        let candidates = variants.into_iter().map(Candidate::Own);
        let fused = self.shortest(gemm, bench, candidates, Between::Nothing)?;
        let own = fused
            .map(|(_, candidate)| {
                self.time(gemm, bench, &candidate, f32::INFINITY, Between::Neighbour)
            })
            .transpose()?;
        // cuBLASLt's time is not needed where ours are always taken.
        let most = if self.choice == GemmChoice::Own && fused.is_some() {
            0
        } else {
            blas::CANDIDATES
        };
        let candidates = self.blas.candidates(gemm, Factors::Plain, most)?;
        let candidates = candidates.into_iter().map(Candidate::Blas);
        let blas = self.shortest(gemm, bench, candidates, Between::Neighbour)?;
        let of = |timed: Option<(f32, Candidate)>| timed.map_or(f32::INFINITY, |(time, _)| time);
        let times = [own.unwrap_or(f32::INFINITY), of(blas)];
        let candidate = match (fused, blas) {
            (Some((_, candidate)), _) if self.prefers_own(times) => candidate,
            (_, Some((_, candidate))) => candidate,
            _ => return Err(Shape::of(gemm).impossible()),
        };
        let variant = match fused {
            Some((_, Candidate::Own(variant))) => Some(variant),
            _ => None,
        };
        let library = match blas {
            Some((_, Candidate::Blas(algorithm))) => Some(algorithm),
            _ => None,
        };
        let gates = match variant {
            Some(wide @ Variant::Wide) => Some(self.prefers_own_gates(gemm, bench, wide, library)?),
            _ => None,
        };
        let split_k = match (candidate, library) {
            (Candidate::Blas(_), Some(whole)) => self.faster_split_k(gemm, bench, whole)?,
            _ => None,
        };
        Ok(Choice {
            candidate,
            variant,
            bf12: None,
            gates,
            split_k,
            fused: of(fused),
            own: times[0],
            blas: times[1],
        })
    }

    fn prefers_own(&self, [own, blas]: [f32; 2]) -> bool {
        match self.choice {
            GemmChoice::Fastest => own <= blas,
            GemmChoice::Own => true,
            GemmChoice::Library => false,
        }
    }
}
