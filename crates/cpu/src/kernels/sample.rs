//! Drawing tokens: rows are shared among threads, and only the tokens that can matter are sorted or given noise.

mod noise;

use ops::{OpError, Sample, SampleParams};
use tensor::ViewMut;

use super::log_probs::{SoftmaxTotal, largest};
use super::rows::RowsMut;
use super::{CpuKernels, f32_only};
use crate::gemm::Shared;
use crate::simd::{LANES, Level, Simd, Vectorised};

/// How far below the largest score tokens are looked for, first near, then further.
const REACHES: [f32; 4] = [8.0, 16.0, 32.0, f32::INFINITY];

/// Memory of one thread, kept from op to op.
#[derive(Default)]
pub(super) struct Workspace {
    scaled: Vec<f32>,
    candidates: Vec<Candidate>,
}

/// A token and how far it is below the largest score.
#[derive(Clone, Copy)]
struct Candidate {
    less: f32,
    token: u32,
}

pub(super) fn sample(kernels: &CpuKernels, op: Sample<'_>) -> Result<(), OpError> {
    f32_only("sample", &[("logits", op.logits.dtype())])?;
    let (logits, params) = (op.logits, op.draw.params);
    let positions = op.draw.positions.into_slice::<u32>();
    let table_rows = op.draw.table_rows.into_slice::<u32>();
    let out = op.draw.out.into_slice::<u32>();
    let mut workspaces = kernels.sampling.borrow_mut();
    workspaces.resize_with(kernels.pool.threads(), Workspace::default);
    let (memory, level) = (Shared(workspaces.as_mut_ptr()), kernels.level);
    let cells = RowsMut::<u32>::new(ViewMut::of_matrix(out, logits.rows(), 1));
    kernels.pool.run_on(logits.rows(), |thread, row| {
        let params = SampleParams::read(&params, row);
        // SAFETY: one task at a time on a thread, one workspace a thread.
        let workspace = unsafe { &mut *memory.get().add(thread) };
        let draw = Draw {
            level,
            params,
            position: positions[row],
        };
        // SAFETY: every row belongs to one task.
        unsafe { cells.row(row)[0] = draw.token(logits.row(row), workspace) };
    });
    let mut last = op.draw.last;
    for (&token, &table_row) in out.iter().zip(table_rows) {
        last.row_mut::<u32>(0)[table_row as usize] = token;
    }
    Ok(())
}

/// One draw.
struct Draw {
    level: Level,
    params: SampleParams,
    position: u32,
}

impl Draw {
    fn token(&self, logits: &[f32], workspace: &mut Workspace) -> u32 {
        if self.params.temperature <= 0.0 {
            return self.level.run(First(logits));
        }
        let Workspace { scaled, candidates } = workspace;
        scaled.resize(logits.len(), 0.0);
        self.level.run(Divide {
            logits,
            temperature: self.params.temperature,
            out: scaled,
        });
        if self.params.keeps_all() {
            return self.level.run(noise::Noisiest {
                scores: scaled,
                seed: self.params.seed,
                position: self.position,
            });
        }
        let kept = self.keep(scaled, candidates);
        let kept = kept.iter().map(|c| (scaled[c.token as usize], c.token));
        noise::noisiest(kept, self.params.seed, self.position)
    }

    /// The tokens that top-k, top-p and min-p leave, by falling score, equal ones by rising token.
    fn keep<'a>(&self, scaled: &[f32], candidates: &'a mut Vec<Candidate>) -> &'a [Candidate] {
        let params = &self.params;
        let (max, total) = self.level.run(SoftmaxTotal {
            values: scaled,
            inverse: 1.0,
        });
        for reach in REACHES {
            candidates.clear();
            self.level.run(Near {
                scaled,
                max,
                reach,
                found: candidates,
            });
            let weight = |c: &Candidate| f64::from(c.less).exp();
            let enough = candidates.len() >= params.top_k as usize
                || f64::from(-reach).exp() < f64::from(params.min_p)
                || candidates.iter().map(weight).sum::<f64>() / total >= f64::from(params.top_p);
            if enough {
                break;
            }
        }
        let order =
            |a: &Candidate, b: &Candidate| b.less.total_cmp(&a.less).then(a.token.cmp(&b.token));
        let most = params.top_k as usize;
        if most < candidates.len() {
            candidates.select_nth_unstable_by(most, order);
            candidates.truncate(most);
        }
        candidates.sort_unstable_by(order);
        let mut before = 0.0;
        let kept = candidates.iter().take_while(|candidate| {
            let weight = f64::from(candidate.less).exp();
            let keep = before < f64::from(params.top_p) && weight >= f64::from(params.min_p);
            before += weight / total;
            keep
        });
        let kept = kept.count();
        &candidates[..kept]
    }
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

/// out = logits / temperature.
struct Divide<'a> {
    logits: &'a [f32],
    temperature: f32,
    out: &'a mut [f32],
}

impl Vectorised for Divide<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for (out, &logit) in self.out.iter_mut().zip(self.logits) {
            *out = logit / self.temperature;
        }
    }
}

/// Finds the tokens that are at most `reach` below the largest score.
struct Near<'a> {
    scaled: &'a [f32],
    max: f32,
    reach: f32,
    found: &'a mut Vec<Candidate>,
}

impl Vectorised for Near<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let bound = s.splat(-self.reach);
        for (index, run) in self.scaled.chunks(LANES).enumerate() {
            let mut lanes = [f32::NAN; LANES];
            lanes[..run.len()].copy_from_slice(run);
            let less = s.sub(s.load(&lanes), s.splat(self.max));
            let mut hits = s.at_least(less, bound);
            if hits == 0 {
                continue;
            }
            s.store(less, &mut lanes);
            while hits != 0 {
                let lane = hits.trailing_zeros() as usize;
                hits &= hits - 1;
                self.found.push(Candidate {
                    less: lanes[lane],
                    token: (index * LANES + lane) as u32,
                });
            }
        }
    }
}
