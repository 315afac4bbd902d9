use ops::{OpError, Sample, SampleParams, rng};

use super::log_probs::{SoftmaxTotal, largest};
use super::{CpuKernels, f32_only};
use crate::simd::{LANES, Level, Simd, Vectorised};

/// Steps of log-probability that tokens are counted by before the first ones are sorted.
const STEPS: usize = 2048;
/// Steps in a nat.
const STEPS_A_NAT: f32 = 64.0;

/// Memory kept from op to op.
#[derive(Default)]
pub(super) struct Workspace {
    scaled: Vec<f32>,
    candidates: Vec<(f32, u32)>,
}

pub(super) fn sample(kernels: &CpuKernels, op: Sample<'_>) -> Result<(), OpError> {
    f32_only("sample", &[("logits", op.logits.dtype())])?;
    let (mut out, mut last) = (op.out, op.last);
    let positions = op.positions.into_slice::<u32>();
    let table_rows = op.table_rows.into_slice::<u32>();
    let workspace = &mut *kernels.sampling.borrow_mut();
    for row in 0..op.logits.rows() {
        let params = SampleParams::read(&op.params, row);
        let logits = op.logits.row::<f32>(row);
        let token = if params.temperature <= 0.0 {
            kernels.level.run(First(logits))
        } else {
            let draw = Draw {
                level: kernels.level,
                params,
                position: positions[row],
            };
            draw.draw(logits, workspace)
        };
        out.row_mut::<u32>(0)[row] = token;
        last.row_mut::<u32>(0)[table_rows[row] as usize] = token;
    }
    Ok(())
}

/// The place of the largest value, the first among equals; zero when there is none.
struct First<'a>(&'a [f32]);

impl Vectorised for First<'_> {
    type Output = u32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> u32 {
        let max = largest(s, self.0);
        if max == f32::NEG_INFINITY {
            return 0;
        }
        let bound = s.splat(max);
        let (vectors, tail) = self.0.as_chunks::<LANES>();
        for (index, vector) in vectors.iter().enumerate() {
            let hits = s.at_least(s.load(vector), bound);
            if hits != 0 {
                return (index * LANES) as u32 + hits.trailing_zeros();
            }
        }
        let rest = tail.iter().position(|&x| x >= max).unwrap_or(0);
        (vectors.len() * LANES + rest) as u32
    }
}

/// One draw with a temperature.
struct Draw {
    level: Level,
    params: SampleParams,
    position: u32,
}

impl Draw {
    fn draw(&self, logits: &[f32], workspace: &mut Workspace) -> u32 {
        let Workspace { scaled, candidates } = workspace;
        scaled.clear();
        scaled.extend(logits.iter().map(|&logit| logit / self.params.temperature));
        let (max, total) = self.level.run(SoftmaxTotal {
            values: scaled,
            inverse: 1.0,
        });
        if self.params.keeps_all() {
            return self.noisiest(scaled.iter().copied().zip(0..));
        }
        let kept = keep(&self.params, scaled, max, total, candidates);
        self.noisiest(
            kept.iter()
                .map(|&(_, token)| (scaled[token as usize], token)),
        )
    }

    /// The token with the largest sum of score and noise, the lowest among equals.
    fn noisiest(&self, tokens: impl Iterator<Item = (f32, u32)>) -> u32 {
        let mut best = (f32::NEG_INFINITY, 0);
        for (score, token) in tokens {
            // No noise exceeds 17, so most tokens need none.
            if score + 17.0 < best.0 {
                continue;
            }
            let noisy = score + rng::gumbel(self.params.seed, self.position, token);
            if noisy > best.0 || (noisy >= best.0 && token < best.1) {
                best = (noisy, token);
            }
        }
        best.1
    }
}

/// The tokens that top-k, top-p and min-p leave, by falling score, equal ones by rising token.
fn keep<'a>(
    params: &SampleParams,
    scaled: &[f32],
    max: f32,
    total: f64,
    candidates: &'a mut Vec<(f32, u32)>,
) -> &'a [(f32, u32)] {
    let reach = reach(params, scaled, max, total);
    candidates.clear();
    candidates.extend(
        scaled
            .iter()
            .zip(0..)
            .map(|(&x, token)| (x - max, token))
            .filter(|&(less, _)| less >= reach),
    );
    candidates.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    candidates.truncate(params.top_k as usize);
    let mut before = 0.0;
    let kept = candidates.iter().take_while(|&&(less, _)| {
        let weight = f64::from(less).exp();
        let keep = before < f64::from(params.top_p) && weight >= f64::from(params.min_p);
        before += weight / total;
        keep
    });
    let kept = kept.count();
    &candidates[..kept]
}

/// How far below the largest score tokens can matter: found by counting, so that only these are sorted.
fn reach(params: &SampleParams, scaled: &[f32], max: f32, total: f64) -> f32 {
    let step = |x: f32| (((max - x) * STEPS_A_NAT) as usize).min(STEPS - 1);
    let mut counts = [0u32; STEPS];
    for &x in scaled {
        counts[step(x)] += 1;
    }
    let (mut tokens, mut mass) = (0u64, 0.0);
    for (index, &count) in counts.iter().enumerate() {
        tokens += u64::from(count);
        let lower = (index + 1) as f32 / STEPS_A_NAT;
        // The least that tokens of this step can weigh.
        mass += f64::from(count) * f64::from(-lower).exp() / total;
        let least = f64::from(-lower).exp();
        let enough = tokens >= u64::from(params.top_k)
            || mass >= f64::from(params.top_p)
            || least < f64::from(params.min_p);
        if enough && index + 1 < STEPS {
            return -lower;
        }
    }
    f32::NEG_INFINITY
}
