use models::Model;
use ops::op::CountTokens;
use ops::{
    Draw, EditLogits, GatherRows, Kernels, LogProbs, Penalise, Readback, Sample, SampleParams,
    TopLogProbs,
};
use tensor::{DType, Scratch, View, ViewMut};

use crate::DeviceLost;
use crate::inputs::{Packed, Packer, ScoredToken, StepInputs};
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
    chosen: Packed,
    edits: Option<[Packed; 3]>,
    nothing: Packed,
    count: usize,
    penalised: bool,
    top: Option<usize>,
}

impl StagedSampling {
    pub(crate) fn pack(inputs: &StepInputs, packer: &mut Packer, extras: &mut Packer) -> Self {
        let sampled = &inputs.sampled;
        let count = sampled.indices.len();
        let params: Vec<u8> = bytemuck::cast_slice(&sampled.params).to_vec();
        let edits = &inputs.edits;
        Self {
            table_rows: packer.row(&sampled.table_rows),
            positions: packer.row(&sampled.positions),
            params: packer.matrix(&params, count),
            temperatures: packer.row(&sampled.temperatures),
            chosen: padded(sampled.chosen.iter().map(Vec::as_slice), extras),
            edits: (!edits.rows.is_empty()).then(|| {
                [
                    extras.row(&edits.rows),
                    extras.row(&edits.tokens),
                    extras.row(&edits.values),
                ]
            }),
            nothing: extras.row::<u32>(&[]),
            count,
            penalised: sampled.params.iter().any(SampleParams::penalises),
            top: sampled.top,
        }
    }

    /// How the rows draw: what they draw goes to `out` and is remembered in `last`.
    pub(crate) fn draw<'a>(
        &self,
        inputs: View<'a>,
        out: ViewMut<'a>,
        last: ViewMut<'a>,
    ) -> Draw<'a> {
        Draw {
            params: self.params.view(inputs),
            positions: self.positions.view(inputs),
            table_rows: self.table_rows.view(inputs),
            out,
            last,
        }
    }
}

/// Where a slice of scored prompt tokens was staged.
pub(crate) struct StagedScores {
    indices: Packed,
    own: Packed,
    chosen: Packed,
    temperatures: Packed,
    count: usize,
    top: usize,
}

impl StagedScores {
    /// One slice for every [`SCORED_AT_ONCE`] tokens.
    pub(crate) fn pack(scored: &[ScoredToken], packer: &mut Packer) -> Vec<Self> {
        scored
            .chunks(SCORED_AT_ONCE)
            .map(|slice| Self::pack_slice(slice, packer))
            .collect()
    }

    fn pack_slice(slice: &[ScoredToken], packer: &mut Packer) -> Self {
        let count = slice.len();
        let indices: Vec<u32> = slice.iter().map(|scored| scored.index).collect();
        let own: Vec<u32> = slice.iter().map(|scored| scored.token).collect();
        Self {
            indices: packer.row(&indices),
            own: packer.matrix(&own, count),
            chosen: padded(slice.iter().map(|scored| scored.chosen.as_slice()), packer),
            temperatures: packer.row(&vec![1.0f32; count]),
            count,
            top: slice.iter().map(|scored| scored.top).max().unwrap_or(0),
        }
    }
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
    pub(crate) kernels: &'a dyn Kernels,
    pub(crate) scratch: &'a Scratch,
    pub(crate) model: &'a dyn Model,
    /// What every step stages.
    pub(crate) inputs: View<'a>,
    /// What some steps stage besides.
    pub(crate) extras: View<'a>,
    /// Bytes of the readback in use.
    pub(crate) fetched: usize,
}

impl Sampler<'_> {
    /// Starts the way of tokens to the host.
    pub(crate) fn fetch_tokens(
        &mut self,
        tokens: View<'_>,
        readback: &mut dyn Readback,
        shape: &mut OutcomeShape,
    ) -> Result<(), DeviceLost> {
        shape.tokens = self.fetch(tokens, readback)?;
        Ok(())
    }

    /// Draws the sampled rows' tokens and starts their way to the host.
    pub(crate) fn sample(
        &mut self,
        (mut logits, mut tokens): (ViewMut<'_>, ViewMut<'_>),
        sampling: &StagedSampling,
        tables: &mut Tables,
        readback: &mut dyn Readback,
        shape: &mut OutcomeShape,
    ) -> Result<(), DeviceLost> {
        if sampling.count == 0 {
            return Ok(());
        }
        let (inputs, extras, vocabulary) = (self.inputs, self.extras, tables.vocabulary);
        if let Some(edits) = &sampling.edits {
            let [rows, tokens, values] = edits.each_ref().map(|packed| packed.view(extras));
            let logits = logits.reborrow();
            self.kernels.edit_logits(EditLogits {
                rows,
                tokens,
                values,
                logits,
            })?;
        }
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
                clear: sampling.nothing.view(extras),
                rows: table_rows,
                tokens: tokens.view(),
                counts: tables
                    .counts
                    .view_mut(0, tables.rows, vocabulary, DType::U16),
            })?;
        }
        self.fetch_tokens(tokens.view(), readback, shape)?;
        if let Some(top) = sampling.top {
            let targets = Targets {
                own: tokens.view().cast(0, sampling.count, 1, DType::U32),
                chosen: sampling.chosen.view(extras),
                temperatures: sampling.temperatures.view(inputs),
            };
            shape.sampled = Some(self.score(logits.view(), &targets, top, readback)?);
        }
        Ok(())
    }

    /// Scores prompt tokens, some at a time; `hidden` is what the forward left.
    pub(crate) fn score_prompt(
        &mut self,
        hidden: View<'_>,
        slices: &[StagedScores],
        readback: &mut dyn Readback,
        shape: &mut OutcomeShape,
    ) -> Result<(), DeviceLost> {
        let extras = self.extras;
        for slice in slices {
            let scope = self.scratch.scope();
            let vocabulary = self.model.spec().vocabulary;
            let mut logits = scope.matrix(slice.count, vocabulary, DType::F32);
            let mut rows = scope.matrix(slice.count, hidden.cols(), hidden.dtype());
            self.kernels.gather_rows(GatherRows {
                x: hidden,
                indices: slice.indices.view(extras),
                out: rows.reborrow(),
            })?;
            self.model
                .head(self.kernels, self.scratch, rows.view(), logits.reborrow())?;
            let targets = Targets {
                own: slice.own.view(extras),
                chosen: slice.chosen.view(extras),
                temperatures: slice.temperatures.view(extras),
            };
            shape
                .scored
                .push(self.score(logits.view(), &targets, slice.top, readback)?);
        }
        Ok(())
    }

    fn score(
        &mut self,
        logits: View<'_>,
        targets: &Targets<'_>,
        top: usize,
        readback: &mut dyn Readback,
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
            own: self.fetch(scores.own.view(), readback)?,
            chosen: self.fetch(scores.chosen.view(), readback)?,
            top_tokens: self.fetch(scores.top_tokens.view(), readback)?,
            top_log_probs: self.fetch(scores.top_log_probs.view(), readback)?,
        })
    }

    fn fetch(&mut self, from: View<'_>, readback: &mut dyn Readback) -> Result<usize, DeviceLost> {
        let offset = self.fetched;
        readback.fetch(from, offset)?;
        self.fetched = offset + from.rows() * from.cols() * from.dtype().size();
        Ok(offset)
    }
}
