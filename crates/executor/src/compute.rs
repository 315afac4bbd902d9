use ops::program::{Arena, Input, InputViews, Output};
use ops::{Device, KvCache, Lowered, OpError, RaggedBatch, Step, Weights};
use tensor::{Buffer, DType, View, ViewMut};

use crate::inputs::Packed;
use crate::lists::StepShape;
use crate::sampler::StagedSampling;
use crate::tables::Tables;

/// Where the arrays that the model reads were staged; equal shapes give equal addresses.
pub(crate) struct StagedTokens {
    pub(crate) ids: Packed,
    pub(crate) positions: Packed,
    pub(crate) slots: Packed,
    pub(crate) starts: Packed,
    pub(crate) lengths: Packed,
    pub(crate) table_rows: Packed,
    /// Tokens that another one is sampled after; in order, one a row.
    pub(crate) indices: Packed,
    pub(crate) shape: StepShape,
    pub(crate) max_query: usize,
}

/// The results of one step, in the arena.
pub(crate) struct StepMemory<'s> {
    /// `[tokens, hidden]`, where prompts are scored.
    pub(crate) hidden: Option<ViewMut<'s>>,
    /// `[sampled, vocabulary]`.
    pub(crate) logits: Option<ViewMut<'s>>,
    /// `[1, sampled]`: what was drawn.
    pub(crate) tokens: ViewMut<'s>,
}

impl<'s> StepMemory<'s> {
    /// Finds what a step of this list left. Tokens that are drawn from logits lie beside the arena.
    pub(crate) fn of(
        list: &Lowered,
        arena: Arena<'s>,
        shape: StepShape,
        drawn: &'s mut Buffer,
    ) -> Self {
        let rows = (shape.tokens, shape.sampled);
        let left = list.output(Output::Tokens, arena, rows);
        Self {
            hidden: list.output(Output::Hidden, arena, rows),
            logits: list.output(Output::Logits, arena, rows),
            tokens: left.unwrap_or_else(|| drawn.view_mut(0, 1, shape.sampled, DType::U32)),
        }
    }
}

/// The part of a step that a graph can hold: from staged inputs to logits, or to tokens.
pub(crate) struct Compute<'a> {
    pub(crate) device: &'a dyn Device,
    pub(crate) weights: &'a Weights,
    pub(crate) list: &'a Lowered,
    pub(crate) arena: Arena<'a>,
    pub(crate) caches: &'a [KvCache<'a>],
    pub(crate) tables: &'a Tables,
    pub(crate) inputs: View<'a>,
    pub(crate) staged: &'a StagedTokens,
    pub(crate) sampling: &'a StagedSampling,
    pub(crate) page_size: usize,
}

impl Compute<'_> {
    pub(crate) fn run(&self) -> Result<(), OpError> {
        let (staged, inputs, tables) = (self.staged, self.inputs, self.tables);
        let (rows, columns) = (tables.rows, tables.columns);
        let given = InputViews::default()
            .with(Input::StagedTokens, staged.ids.view(inputs))
            .with(Input::LastTokens, tables.last.view(0, 1, rows, DType::U32))
            .with(Input::Positions, staged.positions.view(inputs))
            .with(Input::Slots, staged.slots.view(inputs))
            .with(Input::SampledPlaces, staged.indices.view(inputs));
        let step = Step {
            arena: self.arena,
            tokens: staged.shape.tokens,
            sampled: staged.shape.sampled,
            inputs: given,
            batch: Some(RaggedBatch {
                starts: staged.starts.view(inputs),
                lengths: staged.lengths.view(inputs),
                table_rows: staged.table_rows.view(inputs),
                page_table: tables.pages.view(0, rows, columns, DType::U32),
                page_size: self.page_size,
                max_query: staged.max_query,
            }),
            caches: self.caches,
            drawing: Some(self.sampling.drawing(inputs)),
        };
        self.device.run(self.list, self.weights, &step)
    }
}
