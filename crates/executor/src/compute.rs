use models::{Model, Step, WantedTokens};
use ops::{Device, GatherRows, KvCache, OpError, RaggedBatch, ResolveTokens};
use tensor::{DType, Scope, Scratch, View, ViewMut};

use crate::inputs::Packed;
use crate::sampler::StagedSampling;
use crate::tables::Tables;

/// What the memory of a step depends on: equal shapes give equal addresses.
#[derive(Clone, Copy)]
pub(crate) struct StepShape {
    pub(crate) tokens: usize,
    /// Tokens that another one is sampled after.
    pub(crate) sampled: usize,
    /// Whether prompt tokens are scored, from hidden rows of whatever tokens.
    pub(crate) scores: bool,
}

impl StepShape {
    fn wants_all(self) -> bool {
        self.scores || self.sampled == self.tokens
    }

    /// How many hidden rows are wanted.
    fn wanted(self) -> usize {
        if self.wants_all() {
            self.tokens
        } else {
            self.sampled
        }
    }

    /// Whose they are; those at `sampled` sample.
    pub(crate) fn wanted_tokens(self, sampled: View<'_>) -> WantedTokens<'_> {
        if self.wants_all() {
            WantedTokens::All
        } else {
            WantedTokens::At(sampled)
        }
    }
}

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

/// The results of one step, in scratch memory.
pub(crate) struct StepMemory<'s> {
    ids: ViewMut<'s>,
    /// `[wanted tokens, hidden]`.
    pub(crate) hidden: ViewMut<'s>,
    /// Those that sample, `[sampled, hidden]`, where `hidden` has others too.
    gathered: Option<ViewMut<'s>>,
    /// `[sampled, vocabulary]`.
    pub(crate) logits: ViewMut<'s>,
    /// `[1, sampled]`: what was drawn.
    pub(crate) tokens: ViewMut<'s>,
}

impl<'s> StepMemory<'s> {
    /// For equal shapes the addresses are the same every time.
    pub(crate) fn take(
        scope: &'s Scope<'_>,
        model: &dyn Model,
        shape: StepShape,
        dtype: DType,
    ) -> Self {
        let (spec, sampled) = (model.spec(), shape.sampled);
        Self {
            ids: scope.matrix(1, shape.tokens, DType::U32),
            hidden: scope.matrix(shape.wanted(), spec.hidden, dtype),
            gathered: (shape.wanted() > sampled).then(|| scope.matrix(sampled, spec.hidden, dtype)),
            logits: scope.matrix(sampled, spec.vocabulary, DType::F32),
            tokens: scope.matrix(1, sampled, DType::U32),
        }
    }
}

/// The part of a step that a graph can hold: from staged inputs to logits, or to tokens.
pub(crate) struct Compute<'a> {
    pub(crate) device: &'a dyn Device,
    pub(crate) model: &'a dyn Model,
    pub(crate) scratch: &'a Scratch,
    pub(crate) caches: &'a [KvCache<'a>],
    pub(crate) tables: &'a mut Tables,
    pub(crate) inputs: View<'a>,
    pub(crate) staged: &'a StagedTokens,
    /// How rows draw, where all of them take the largest logit: then nobody reads logits.
    pub(crate) largest: Option<&'a StagedSampling>,
    pub(crate) page_size: usize,
}

impl Compute<'_> {
    pub(crate) fn run(&mut self, memory: &mut StepMemory<'_>) -> Result<(), OpError> {
        let (kernels, staged, inputs) = (self.device.kernels(), self.staged, self.inputs);
        let Tables {
            last,
            pages,
            rows,
            columns,
            ..
        } = &mut *self.tables;
        kernels.resolve_tokens(ResolveTokens {
            staged: staged.ids.view(inputs),
            last: last.view(0, 1, *rows, DType::U32),
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
                page_table: pages.view(0, *rows, *columns, DType::U32),
                page_size: self.page_size,
                max_query: staged.max_query,
            },
            kv: self.caches,
            wanted: staged.shape.wanted_tokens(staged.indices.view(inputs)),
        };
        let (shape, hidden) = (staged.shape, memory.hidden.reborrow());
        if shape.sampled == 0 {
            return self.model.forward(&step, hidden);
        }
        if let Some(sampling) = self.largest {
            let last = last.view_mut(0, 1, *rows, DType::U32);
            let draw = sampling.draw(inputs, memory.tokens.reborrow(), last);
            let logits = memory.logits.reborrow();
            return self.model.forward_to_tokens(&step, hidden, logits, draw);
        }
        if !shape.scores {
            let logits = memory.logits.reborrow();
            return self.model.forward_to_logits(&step, hidden, logits);
        }
        self.model.forward(&step, hidden)?;
        let rows = match &mut memory.gathered {
            Some(gathered) => {
                kernels.gather_rows(GatherRows {
                    x: memory.hidden.view(),
                    indices: staged.indices.view(inputs),
                    out: gathered.reborrow(),
                })?;
                gathered.view()
            }
            None => memory.hidden.view(),
        };
        let logits = memory.logits.reborrow();
        self.model.head(kernels, self.scratch, rows, logits)
    }
}
