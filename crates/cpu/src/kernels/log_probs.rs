use ops::{LogProbs, OpError, TopLogProbs};

use super::rows::RowsMut;
use super::{CpuKernels, WORTH_SHARING, f32_only};
use crate::simd::{LANES, Level, Simd, Vectorised, math};

pub(super) fn log_probs(kernels: &CpuKernels, op: LogProbs<'_>) -> Result<(), OpError> {
    f32_only("log_probs", &[("logits", op.logits.dtype())])?;
    let (logits, level) = (op.logits, kernels.level);
    let targets = op.targets;
    let temperatures = op.temperatures.into_slice::<f32>();
    let out = RowsMut::<f32>::new(op.log_probs);
    let (tokens, tops) = match op.top {
        Some(TopLogProbs { tokens, log_probs }) => (
            Some(RowsMut::<u32>::new(tokens)),
            Some(RowsMut::<f32>::new(log_probs)),
        ),
        None => (None, None),
    };
    let grain = WORTH_SHARING / logits.cols().max(1);
    kernels.pool.split(logits.rows(), grain, |range| {
        for row in range {
            let values = logits.row::<f32>(row);
            let temperature = temperatures[row];
            let inverse = if temperature > 0.0 {
                1.0 / f64::from(temperature)
            } else {
                1.0
            };
            let (max, total) = level.run(SoftmaxTotal {
                values,
                inverse: inverse as f32,
            });
            let norm = total.ln();
            let log_prob = |logit: f32| (f64::from(logit - max) * inverse - norm) as f32;
            // SAFETY: every row belongs to one task.
            let out = unsafe { out.row(row) };
            for (out, &target) in out.iter_mut().zip(targets.row::<u32>(row)) {
                *out = log_prob(values[target as usize]);
            }
            if let (Some(tokens), Some(tops)) = (&tokens, &tops) {
                // SAFETY: as above.
                let (tokens, tops) = unsafe { (tokens.row(row), tops.row(row)) };
                most_likely(level, values, tokens, tops);
                for top in tops {
                    *top = log_prob(*top);
                }
            }
        }
    });
    Ok(())
}

/// The largest value m, and Σ exp((x − m) · inverse).
pub(super) struct SoftmaxTotal<'a> {
    pub(super) values: &'a [f32],
    pub(super) inverse: f32,
}

impl Vectorised for SoftmaxTotal<'_> {
    type Output = (f32, f64);

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> (f32, f64) {
        let max = largest(s, self.values);
        let (top, inverse) = (s.splat(max), s.splat(self.inverse));
        let (vectors, tail) = self.values.as_chunks::<LANES>();
        let mut total = 0.0;
        // Sums of a few hundred numbers in f32, those of the sums in f64.
        for run in vectors.chunks(256) {
            let mut sum = s.splat(0.0);
            for vector in run {
                let x = s.mul(s.sub(s.load(vector), top), inverse);
                sum = s.add(sum, math::exp(s, x));
            }
            total += f64::from(s.sum(sum));
        }
        let mut rest = [f32::NEG_INFINITY; LANES];
        rest[..tail.len()].copy_from_slice(tail);
        let x = s.mul(s.sub(s.load(&rest), top), inverse);
        (max, total + f64::from(s.sum(math::exp(s, x))))
    }
}

/// The largest number of a slice, minus infinity when there is none.
#[inline(always)]
pub(super) fn largest<S: Simd>(s: S, values: &[f32]) -> f32 {
    let (vectors, tail) = values.as_chunks::<LANES>();
    let mut max = [s.splat(f32::NEG_INFINITY); 4];
    let (fours, rest) = vectors.as_chunks::<4>();
    for four in fours {
        for (max, vector) in max.iter_mut().zip(four) {
            *max = s.max(s.load(vector), *max);
        }
    }
    for vector in rest {
        max[0] = s.max(s.load(vector), max[0]);
    }
    let all = s.max(s.max(max[0], max[1]), s.max(max[2], max[3]));
    tail.iter()
        .fold(s.largest(all), |max, &x| if x > max { x } else { max })
}

/// The largest values and their places, by falling value, equal ones by rising place.
fn most_likely(level: Level, values: &[f32], places: &mut [u32], tops: &mut [f32]) {
    let mut kept = 0;
    let mut bound = f32::NEG_INFINITY;
    for (index, run) in values.chunks(LANES).enumerate() {
        let mut hits = if kept < places.len() {
            u32::MAX
        } else {
            level.run(AtLeast { run, bound })
        };
        hits &= (1u32 << run.len()) - 1;
        while hits != 0 {
            let lane = hits.trailing_zeros() as usize;
            hits &= hits - 1;
            let value = run[lane];
            if kept == places.len() && (kept == 0 || value <= bound) {
                continue;
            }
            let at = tops[..kept].partition_point(|&top| top >= value);
            kept = (kept + 1).min(places.len());
            tops[at..kept].rotate_right(1);
            places[at..kept].rotate_right(1);
            tops[at] = value;
            places[at] = (index * LANES + lane) as u32;
            bound = tops[kept - 1];
        }
    }
}

/// Which of up to sixteen values reach a bound.
struct AtLeast<'a> {
    run: &'a [f32],
    bound: f32,
}

impl Vectorised for AtLeast<'_> {
    type Output = u32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> u32 {
        match self.run.first_chunk() {
            Some(run) => s.at_least(s.load(run), s.splat(self.bound)),
            None => u32::MAX,
        }
    }
}
