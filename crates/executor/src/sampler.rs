use ops::program::{Arena, Input, InputViews, Output};
use ops::{
    CountTokens, Device, Draw, EditLogits, GatherRows, Kernels, LogProbs, Lowered, Penalise,
    Readback, Sample, SampleParams, Step, TopLogProbs, Weights,
};
use tensor::{DType, Scratch, View, ViewMut};

use crate::DeviceLost;
use crate::channel::Channel;
use crate::inputs::{Packed, Packer, RowEdits, SampledRows, ScoredToken, StepInputs};
use crate::outcome::{OutcomeShape, ScoredBlock};
use crate::scores::{ScoreMemory, ScoreShape};
use crate::tables::Tables;

/// Prompt tokens whose logits are computed at once: bounds the scratch that scoring needs.
pub(crate) const SCORED_AT_ONCE: usize = 32;

/// Where the arrays of the rows that sample were staged.
pub(crate) struct StagedSampling {
    table_rows: Packed,
    positions: Packed,
    params: Packed,
    temperatures: Packed,
    count: usize,
    penalised: bool,
}

impl StagedSampling {
    pub(crate) fn pack(sampled: &SampledRows, packer: &mut Packer) -> Self {
        let count = sampled.indices.len();
        let params: Vec<u8> = bytemuck::cast_slice(&sampled.params).to_vec();
        Self {
            table_rows: packer.row(&sampled.table_rows),
            positions: packer.row(&sampled.positions),
            params: packer.matrix(&params, count),
            temperatures: packer.row(&sampled.temperatures),
            count,
            penalised: sampled.params.iter().any(SampleParams::penalises),
        }
    }

    /// Parameters, positions and rows of the tables.
    pub(crate) fn drawing<'a>(&self, inputs: View<'a>) -> [View<'a>; 3] {
        [&self.params, &self.positions, &self.table_rows].map(|packed| packed.view(inputs))
    }

    /// How the rows draw: what they draw goes to `out` and is remembered in `last`.
    fn draw<'a>(&self, inputs: View<'a>, out: ViewMut<'a>, last: ViewMut<'a>) -> Draw<'a> {
        let [params, positions, table_rows] = self.drawing(inputs);
        Draw {
            params,
            positions,
            table_rows,
            out,
            last,
        }
    }
}

/// Where a slice of scored prompt tokens was staged.
struct StagedScores {
    indices: Packed,
    own: Packed,
    chosen: Packed,
    temperatures: Packed,
}

impl StagedScores {
    fn pack(slice: &[ScoredToken], packer: &mut Packer) -> Self {
        let count = slice.len();
        let indices: Vec<u32> = slice.iter().map(|scored| scored.index).collect();
        let own: Vec<u32> = slice.iter().map(|scored| scored.token).collect();
        Self {
            indices: packer.row(&indices),
            own: packer.matrix(&own, count),
            chosen: padded(slice.iter().map(|scored| scored.chosen.as_slice()), packer),
            temperatures: packer.row(&vec![1.0f32; count]),
        }
    }
}

/// Tokens that are scored together: they ask for equally much, so that nobody's results are as wide as somebody else's.
fn slices(scored: &[ScoredToken]) -> impl Iterator<Item = &[ScoredToken]> {
    let width = |scored: &ScoredToken| (scored.chosen.len(), scored.top);
    let alike = scored.chunk_by(move |one, next| width(one) == width(next));
    alike.flat_map(|tokens| tokens.chunks(SCORED_AT_ONCE))
}

/// Lists of different lengths as one matrix; what is missing is token 0.
fn padded<'t>(lists: impl Iterator<Item = &'t [u32]> + Clone, packer: &mut Packer) -> Packed {
    let widest = lists.clone().map(<[u32]>::len).max().unwrap_or(0);
    let count = lists.clone().count();
    let mut matrix = vec![0u32; count * widest];
    for (row, tokens) in lists.enumerate() {
        matrix[row * widest..][..tokens.len()].copy_from_slice(tokens);
    }
    packer.matrix(&matrix, count)
}

/// Which tokens are scored in each row of logits.
struct Targets<'a> {
    /// `[rows, 1]`: the sampled or prompt token.
    own: View<'a>,
    /// `[rows, m]`: tokens the client named.
    chosen: View<'a>,
    temperatures: View<'a>,
}

/// What sampling works with.
pub(crate) struct Sampler<'a> {
    pub(crate) device: &'a dyn Device,
    pub(crate) kernels: &'a dyn Kernels,
    pub(crate) scratch: &'a Scratch,
    /// From hidden rows to logits.
    pub(crate) head: &'a Lowered,
    pub(crate) weights: &'a Weights,
    /// What every step stages.
    pub(crate) inputs: View<'a>,
    /// The way of what some steps need besides.
    pub(crate) extras: &'a mut Channel,
}

/// The way of a step's results to the host.
pub(crate) struct Results<'r> {
    readback: &'r mut dyn Readback,
    /// Bytes of it in use.
    fetched: usize,
    shape: &'r mut OutcomeShape,
}

impl<'r> Results<'r> {
    pub(crate) fn new(readback: &'r mut dyn Readback, shape: &'r mut OutcomeShape) -> Self {
        Self {
            readback,
            fetched: 0,
            shape,
        }
    }

    /// Starts the way of a matrix; tells where it will be.
    fn fetch(&mut self, from: View<'_>) -> Result<usize, DeviceLost> {
        let offset = self.fetched;
        self.readback.fetch(from, offset)?;
        self.fetched = offset + from.rows() * from.cols() * from.dtype().size();
        Ok(offset)
    }

    /// Starts the way of the tokens that were drawn.
    pub(crate) fn fetch_tokens(&mut self, tokens: View<'_>) -> Result<(), DeviceLost> {
        self.shape.tokens = self.fetch(tokens)?;
        Ok(())
    }
}

impl Sampler<'_> {
    /// Draws the sampled rows' tokens and starts their way to the host.
    pub(crate) fn sample(
        &mut self,
        (mut logits, mut tokens): (ViewMut<'_>, ViewMut<'_>),
        (step, sampling): (&StepInputs, &StagedSampling),
        tables: &mut Tables,
        results: &mut Results<'_>,
    ) -> Result<(), DeviceLost> {
        let (kernels, inputs, vocabulary) = (self.kernels, self.inputs, tables.vocabulary);
        let edits = step.edits.iter().flat_map(RowEdits::each);
        self.extras.in_parts(edits, |[rows, tokens, bits], _| {
            let values = bits.cast(0, 1, bits.cols(), DType::F32);
            let logits = logits.reborrow();
            Ok(kernels.edit_logits(EditLogits {
                rows,
                tokens,
                values,
                logits,
            })?)
        })?;
        let (params, table_rows) = (
            sampling.params.view(inputs),
            sampling.table_rows.view(inputs),
        );
        if sampling.penalised {
            let counts = tables.counts.view(0, tables.rows, vocabulary, DType::U16);
            let logits = logits.reborrow();
            self.kernels.penalise(Penalise {
                counts,
                table_rows,
                params,
                logits,
            })?;
        }
        let last = tables.last.view_mut(0, 1, tables.rows, DType::U32);
        let draw = sampling.draw(inputs, tokens.reborrow(), last);
        self.kernels.sample(Sample {
            logits: logits.view(),
            draw,
        })?;
        if sampling.penalised {
            self.kernels.count_tokens(CountTokens {
                clear: self.extras.nothing(),
                rows: table_rows,
                tokens: tokens.view(),
                counts: tables
                    .counts
                    .view_mut(0, tables.rows, vocabulary, DType::U16),
            })?;
        }
        results.fetch_tokens(tokens.view())?;
        if let Some(top) = step.sampled.top {
            let lists = step.sampled.chosen.iter().map(Vec::as_slice);
            let chosen = padded(lists, self.extras.pack());
            self.extras.send()?;
            let targets = Targets {
                own: tokens.view().cast(0, sampling.count, 1, DType::U32),
                chosen: chosen.view(self.extras.device()),
                temperatures: sampling.temperatures.view(inputs),
            };
            let block = self.score(logits.view(), &targets, top, results)?;
            results.shape.sampled = Some(block);
        }
        Ok(())
    }

    /// Scores prompt tokens, some at a time; `hidden` is what the forward left.
    pub(crate) fn score_prompt(
        &mut self,
        hidden: View<'_>,
        scored: &[ScoredToken],
        results: &mut Results<'_>,
    ) -> Result<(), DeviceLost> {
        for slice in slices(scored) {
            let staged = StagedScores::pack(slice, self.extras.pack());
            self.extras.send()?;
            let extras = self.extras.device();
            let scope = self.scratch.scope();
            let arena = scope.matrix(1, self.head.layout.bytes(), DType::U8);
            let mut rows = scope.matrix(slice.len(), hidden.cols(), hidden.dtype());
            self.kernels.gather_rows(GatherRows {
                x: hidden,
                indices: staged.indices.view(extras),
                out: rows.reborrow(),
            })?;
            let logits = self.score_rows(Arena::new(arena), rows.view())?;
            let targets = Targets {
                own: staged.own.view(extras),
                chosen: staged.chosen.view(extras),
                temperatures: staged.temperatures.view(extras),
            };
            let block = self.score(logits, &targets, slice[0].top, results)?;
            results.shape.scored.push(block);
        }
        Ok(())
    }

    /// Logits of hidden rows.
    fn score_rows<'s>(&self, arena: Arena<'s>, rows: View<'s>) -> Result<View<'s>, DeviceLost> {
        let count = rows.rows();
        let step = Step {
            arena,
            tokens: count,
            sampled: count,
            inputs: InputViews::default().with(Input::HiddenRows, rows),
            batch: None,
            caches: &[],
            drawing: None,
        };
        self.device.run(self.head, self.weights, &step)?;
        let logits = self.head.output(Output::Logits, arena, (count, count));
        Ok(logits.expect("a head leaves logits").into_view())
    }

    fn score(
        &self,
        logits: View<'_>,
        targets: &Targets<'_>,
        top: usize,
        results: &mut Results<'_>,
    ) -> Result<ScoredBlock, DeviceLost> {
        let shape = ScoreShape {
            rows: logits.rows(),
            chosen: targets.chosen.cols(),
            top,
        };
        let scope = self.scratch.scope();
        let mut scores = ScoreMemory::take(&scope, shape);
        let score = |targets_of, log_probs, top| {
            let temperatures = targets.temperatures;
            self.kernels.log_probs(LogProbs {
                logits,
                targets: targets_of,
                temperatures,
                log_probs,
                top,
            })
        };
        let tops = (top > 0).then(|| TopLogProbs {
            tokens: scores.top_tokens.reborrow(),
            log_probs: scores.top_log_probs.reborrow(),
        });
        score(targets.own, scores.own.reborrow(), tops)?;
        if shape.chosen > 0 {
            score(targets.chosen, scores.chosen.reborrow(), None)?;
        }
        Ok(ScoredBlock {
            shape,
            own: results.fetch(scores.own.view())?,
            chosen: results.fetch(scores.chosen.view())?,
            top_tokens: results.fetch(scores.top_tokens.view())?,
            top_log_probs: results.fetch(scores.top_log_probs.view())?,
        })
    }
}
