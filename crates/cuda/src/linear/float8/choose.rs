//! GEMM autotuning of eight-bit weights: all candidates are timed when a weight of a new shape is loaded.

use ops::DeviceError;
use tensor::DType;

use super::{Candidate, Choice, Float8Weight, MOST_ROUNDED, Scaling};
use crate::linear::blas::Algorithm;
use crate::linear::timing::{Bench, Between, SEED, TimedCandidate, others};
use crate::linear::{Gemm, Gemms, Shape, locked};
use crate::memory::allocate;
use crate::options::GemmChoice;

/// The gain above which rounding activations is worth the precision.
const ROUNDING: f32 = 1.1;
/// Algorithms of cuBLASLt that are tried.
const CANDIDATES: usize = 4;

impl TimedCandidate for Candidate {
    type Weight = Float8Weight;

    fn run(
        &self,
        gemms: &Gemms,
        gemm: &mut Gemm<'_>,
        weight: &Float8Weight,
    ) -> Result<(), DeviceError> {
        gemms.run_float8_candidate(gemm, weight, self)
    }

    fn is_library(&self) -> bool {
        !matches!(self, Self::Own(_))
    }
}

impl Gemms {
    /// Takes over a weight and autotunes its GEMMs of up to `most_rows` rows.
    pub(crate) fn adopt_float8(
        &self,
        weight: Float8Weight,
        most_rows: usize,
    ) -> Result<Float8Weight, DeviceError> {
        if weight.outputs.is_multiple_of(8) && weight.inputs.is_multiple_of(8) {
            self.time_all_float8(&weight, weight.shapes(most_rows))?;
        }
        Ok(weight)
    }

    /// As [`Self::expect_bias`], for weights of eight-bit floats.
    pub(crate) fn expect_float8_bias(
        &self,
        weight: &Float8Weight,
        most_rows: usize,
    ) -> Result<(), DeviceError> {
        let kind = weight.kind();
        let choice = |shape: Shape| locked(&self.float8().chosen).get(&(shape, kind)).copied();
        let mut library = Vec::new();
        for shape in weight.shapes(most_rows).into_iter().filter(|s| !s.wide) {
            match choice(shape) {
                // A bias costs our kernel nothing.
                Some(choice) if !choice.candidate.is_library() => {
                    let key = (shape.biased(), kind);
                    locked(&self.float8().chosen).insert(key, choice);
                }
                Some(_) => library.push(shape.biased()),
                None => {}
            }
        }
        self.time_all_float8(weight, library)
    }

    /// Times those shapes of GEMMs with a weight that were not timed yet.
    fn time_all_float8(
        &self,
        weight: &Float8Weight,
        mut shapes: Vec<Shape>,
    ) -> Result<(), DeviceError> {
        let kind = weight.kind();
        shapes.retain(|shape| !locked(&self.float8().chosen).contains_key(&(*shape, kind)));
        if shapes.is_empty() {
            return Ok(());
        }
        let others = self.float8_others(weight)?;
        let weights = std::iter::once(weight).chain(&others).collect();
        self.time_shapes(&shapes, weights, |shape, gemm, bench| {
            let choice = self.fastest_float8(gemm, bench)?;
            locked(&self.float8().chosen).insert((shape, kind), choice);
            Ok(())
        })
    }

    /// Enough weights of the shape that the cache does not hold them all.
    fn float8_others(&self, weight: &Float8Weight) -> Result<Vec<Float8Weight>, DeviceError> {
        let shape = (weight.outputs, weight.inputs);
        let copy = |bytes| allocate(&self.context, bytes, "GEMM autotuning");
        (0..others(weight.codes.bytes()))
            .map(|_| {
                let library = weight.library_scales().map(|scales| copy(scales.bytes()));
                Float8Weight::new(
                    shape,
                    self.invent_float8(shape, SEED)?,
                    weight.grid,
                    copy(weight.scales.bytes())?,
                    library.transpose()?,
                )
            })
            .collect()
    }

    fn fastest_float8(
        &self,
        gemm: &mut Gemm<'_>,
        bench: &Bench<'_, Float8Weight>,
    ) -> Result<Choice, DeviceError> {
        let variants = self.float8().variants(gemm, bench.weights[0]);
        let own: Vec<Candidate> = variants.into_iter().map(Candidate::Own).collect();
        let candidates =
            |scaling| self.code_candidates(gemm, bench.weights[0], (CANDIDATES, scaling));
        let algorithms = candidates(Scaling::Whole)?;
        let rounded: Vec<Candidate> = algorithms.into_iter().map(Candidate::Rounded).collect();
        let kinds = match self.choice {
            GemmChoice::Own if !own.is_empty() => [own, Vec::new(), Vec::new()],
            GemmChoice::Library if !rounded.is_empty() => [Vec::new(), rounded, Vec::new()],
            _ => [own, rounded, vec![Candidate::Widened]],
        };
        let mut times = [f32::INFINITY; 4];
        let mut fastest = None;
        for (time, candidates) in times.iter_mut().zip(kinds) {
            // Ours does the work of a small kernel too.
            let between = match candidates.first() {
                Some(candidate) if candidate.is_library() => Between::Neighbour,
                _ => Between::Nothing,
            };
            let Some((shortest, candidate)) = self.shortest(gemm, bench, candidates, between)?
            else {
                continue;
            };
            *time = shortest;
            let price = match candidate {
                Candidate::Rounded(_) => shortest * ROUNDING,
                Candidate::Own(_) | Candidate::Bare(_) | Candidate::Widened => shortest,
            };
            if fastest.is_none_or(|(best, _)| price < best) {
                fastest = Some((price, candidate));
            }
        }
        let (_, candidate) = fastest.ok_or_else(|| Shape::of(gemm).impossible())?;
        let mut bare = None;
        if matches!(candidate, Candidate::Rounded(_)) {
            (times[3], bare) = self.fastest_bare(gemm, bench)?;
        }
        let bare = bare.filter(|_| times[3] < times[1]);
        Ok(Choice {
            candidate,
            bare,
            times,
        })
    }

    /// cuBLASLt's candidate for unscaled sums of codes, where scales are of rows and results need no further work.
    fn fastest_bare(
        &self,
        gemm: &mut Gemm<'_>,
        bench: &Bench<'_, Float8Weight>,
    ) -> Result<(f32, Option<Algorithm>), DeviceError> {
        let weight = bench.weights[0];
        let none = (f32::INFINITY, None);
        if weight.is_grouped() || gemm.bias.is_some() || gemm.out.dtype() == DType::F32 {
            return Ok(none);
        }
        let algorithms = self.code_candidates(gemm, weight, (CANDIDATES, Scaling::Bare))?;
        let candidates = algorithms.into_iter().map(Candidate::Bare);
        let found = self.shortest(gemm, bench, candidates, Between::Neighbour)?;
        Ok(match found {
            Some((time, Candidate::Bare(algorithm))) => (time, Some(algorithm)),
            _ => none,
        })
    }

    /// The choice for GEMMs of a weight, one line per row count; for people.
    pub(crate) fn describe_float8(&self, outputs: usize, inputs: usize) -> Vec<String> {
        let chosen = locked(&self.float8().chosen);
        let mine = chosen.iter().filter(|((shape, _), _)| {
            shape.outputs == outputs && shape.inputs == inputs && !shape.bias
        });
        mine.map(|((shape, kind), choice)| {
            let kind = if kind.grouped { "128×128" } else { "a row" };
            let how = match choice.candidate {
                Candidate::Own(variant) => format!("{variant:?}"),
                Candidate::Rounded(_) | Candidate::Bare(_) => "cuBLASLt, rounded".into(),
                Candidate::Widened => "cuBLASLt, widened".into(),
            };
            let [own, rounded, widened, bare] = choice.times.map(|time| 1e3 * time);
            let rows = shape.bucket;
            format!(
                "{rows:5} rows, scales {kind}: own {own:8.1} µs, rounded {rounded:8.1} µs, without scales {bare:8.1} µs, widened {widened:8.1} µs, {how}"
            )
        })
        .collect()
    }
}

impl Float8Weight {
    /// Shapes of its GEMMs, with up to `most_rows` rows; more than are rounded at once come one part after the other.
    fn shapes(&self, most_rows: usize) -> Vec<Shape> {
        Shape::likely((self.outputs, self.inputs), most_rows.min(MOST_ROUNDED))
    }
}
