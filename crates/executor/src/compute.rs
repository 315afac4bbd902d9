use models::{Model, Step};
use ops::{Device, GatherRows, KvCache, OpError, RaggedBatch, ResolveTokens};
use tensor::{DType, Scope, Scratch, View, ViewMut};

use crate::inputs::Packed;
use crate::tables::Tables;

/// Where the arrays that the model reads were staged; equal counts give equal addresses.
pub(crate) struct StagedTokens {
    pub(crate) ids: Packed,
    pub(crate) positions: Packed,
    pub(crate) slots: Packed,
    pub(crate) starts: Packed,
    pub(crate) lengths: Packed,
    pub(crate) table_rows: Packed,
    /// Tokens whose logits are wanted.
    pub(crate) indices: Packed,
    pub(crate) tokens: usize,
    pub(crate) sampled: usize,
    pub(crate) max_query: usize,
}

/// The results of one step, in scratch memory.
pub(crate) struct StepMemory<'s> {
    ids: ViewMut<'s>,
    /// `[tokens, hidden]`.
    pub(crate) hidden: ViewMut<'s>,
    rows: ViewMut<'s>,
    /// `[sampled, vocabulary]`.
    pub(crate) logits: ViewMut<'s>,
}

impl<'s> StepMemory<'s> {
    /// For equal counts the addresses are the same every time.
    pub(crate) fn take(
        scope: &'s Scope<'_>,
        model: &dyn Model,
        (tokens, sampled): (usize, usize),
        dtype: DType,
    ) -> Self {
        let spec = model.spec();
        Self {
            ids: scope.matrix(1, tokens, DType::U32),
            hidden: scope.matrix(tokens, spec.hidden, dtype),
            rows: scope.matrix(sampled, spec.hidden, dtype),
            logits: scope.matrix(sampled, spec.vocabulary, DType::F32),
        }
    }
}

/// The part of a step that a graph can hold: from staged inputs to logits.
pub(crate) struct Compute<'a> {
    pub(crate) device: &'a dyn Device,
    pub(crate) model: &'a dyn Model,
    pub(crate) scratch: &'a Scratch,
    pub(crate) caches: &'a [KvCache<'a>],
    pub(crate) tables: &'a Tables,
    pub(crate) inputs: View<'a>,
    pub(crate) staged: &'a StagedTokens,
    pub(crate) page_size: usize,
}

impl Compute<'_> {
    pub(crate) fn run(&self, memory: &mut StepMemory<'_>) -> Result<(), OpError> {
        let (kernels, staged, inputs) = (self.device.kernels(), self.staged, self.inputs);
        let tables = self.tables;
        kernels.resolve_tokens(ResolveTokens {
            staged: staged.ids.view(inputs),
            last: tables.last.view(0, 1, tables.rows, DType::U32),
            out: memory.ids.reborrow(),
        })?;
        let step = Step {
            kernels,
            scratch: self.scratch,
            dtype: memory.hidden.dtype(),
            ids: memory.ids.view(),
            positions: staged.positions.view(inputs),
            slots: staged.slots.view(inputs),
            batch: RaggedBatch {
                starts: staged.starts.view(inputs),
                lengths: staged.lengths.view(inputs),
                table_rows: staged.table_rows.view(inputs),
                page_table: tables
                    .pages
                    .view(0, tables.rows, tables.columns, DType::U32),
                page_size: self.page_size,
                max_query: staged.max_query,
            },
            kv: self.caches,
        };
        self.model.forward(&step, memory.hidden.reborrow())?;
        if staged.sampled == 0 {
            return Ok(());
        }
        kernels.gather_rows(GatherRows {
            x: memory.hidden.view(),
            indices: staged.indices.view(inputs),
            out: memory.rows.reborrow(),
        })?;
        self.model.head(
            kernels,
            self.scratch,
            memory.rows.view(),
            memory.logits.reborrow(),
        )
    }
}
