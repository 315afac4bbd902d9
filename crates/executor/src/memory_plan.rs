use models::{Model, Step};
use ops::{DryRun, KvCache, OpError, RaggedBatch};
use tensor::{Buffer, DType, Scratch};

use crate::ExecutorConfig;
use crate::compute::{StepMemory, StepShape};
use crate::sampler::SCORED_AT_ONCE;
use crate::scores::{MAX_SCORES, ScoreMemory, ScoreShape};

/// What the memory of a device goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Weights, as the device holds them.
    pub weights: usize,
    /// Weights once more, folded.
    pub folded: usize,
    /// Intermediate results of the largest step.
    pub scratch: usize,
    /// Page table, last tokens, token counts.
    pub tables: usize,
    /// Keys and values.
    pub kv: usize,
    /// What inputs and results of steps pass through; on a GPU most of it is memory of the host.
    pub transfers: usize,
}

impl MemoryPlan {
    /// Everything together.
    pub fn total(&self) -> usize {
        self.weights + self.folded + self.scratch + self.tables + self.kv + self.transfers
    }
}

/// How much a step may bring to the device and back, whatever clients ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransferSizes {
    pub(crate) inputs: usize,
    pub(crate) extras: usize,
    pub(crate) readback: usize,
}

impl TransferSizes {
    pub(crate) fn of(config: &ExecutorConfig) -> Self {
        let rows = config.max_rows;
        // One slice of a prompt or the sampled rows, with all tokens that they may name; longer lists come in parts.
        let named = rows.max(SCORED_AT_ONCE) * (MAX_SCORES + 3);
        let numbers = rows + config.max_step_scores;
        Self {
            inputs: 4096 + 16 * config.max_step_tokens + 128 * (rows + 1),
            extras: 4096 + named * DType::U32.size(),
            readback: numbers * DType::U32.size() + ScoreShape::largest(rows).bytes(),
        }
    }

    /// Bytes of all, with so many steps in flight and one to fill.
    pub(crate) fn together(self, run_ahead: usize) -> usize {
        self.inputs + self.extras + (run_ahead + 1) * self.readback
    }
}

/// Bytes that inputs and results of steps pass through.
pub fn transfer_bytes(config: &ExecutorConfig) -> usize {
    TransferSizes::of(config).together(config.run_ahead)
}

/// Bytes of scratch that the largest step needs: the model's own forward, run dry.
pub fn measure_scratch(
    model: &dyn Model,
    config: &ExecutorConfig,
    activation: DType,
) -> Result<usize, OpError> {
    let (tokens, rows) = (config.max_step_tokens, config.max_rows);
    let scratch = Scratch::measuring();
    // The largest step of each kind: all tokens sample or are scored, or some of them.
    let (all, some) = (rows.min(tokens), rows.min(tokens.saturating_sub(1)));
    for (sampled, scores) in [(all, true), (some, true), (some, false)] {
        let shape = StepShape {
            tokens,
            sampled,
            scores,
        };
        run_dry(model, config, activation, shape, &scratch)?;
    }
    Ok(scratch.peak())
}

fn run_dry(
    model: &dyn Model,
    config: &ExecutorConfig,
    activation: DType,
    shape: StepShape,
    scratch: &Scratch,
) -> Result<(), OpError> {
    let (tokens, rows) = (shape.tokens, config.max_rows);
    let nowhere = Buffer::nowhere(usize::MAX / 4);
    let words = |rows: usize, cols: usize| nowhere.view(0, rows, cols, DType::U32);
    let spec = model.spec();
    let (mut keys, mut values) = (
        Buffer::nowhere(usize::MAX / 4),
        Buffer::nowhere(usize::MAX / 4),
    );
    let width = spec.heads.kv_width();
    let cache = KvCache::new(
        keys.view_mut(0, config.slots(), width, config.kv_dtype),
        values.view_mut(0, config.slots(), width, config.kv_dtype),
    );
    let kv = vec![cache; spec.layers];
    let step = Step {
        kernels: &DryRun,
        scratch,
        dtype: activation,
        ids: words(1, tokens),
        positions: words(1, tokens),
        slots: words(1, tokens),
        batch: RaggedBatch {
            starts: words(1, rows + 1),
            lengths: words(1, rows),
            table_rows: words(1, rows),
            page_table: words(config.table_rows(), config.max_pages_per_row()),
            page_size: config.page_size,
            max_query: tokens,
        },
        kv: &kv,
        wanted: shape.wanted_tokens(words(1, shape.sampled)),
    };
    let scope = scratch.scope();
    let mut memory = StepMemory::take(&scope, model, shape, activation);
    model.forward(&step, memory.hidden.reborrow())?;
    // Scoring a slice of a prompt, or the sampled rows, with as many scores as a client may ask.
    let scored = rows.max(SCORED_AT_ONCE);
    let inner = scope.scope();
    let mut logits = inner.matrix(SCORED_AT_ONCE, spec.vocabulary, DType::F32);
    let gathered = inner.matrix(SCORED_AT_ONCE, spec.hidden, activation);
    model.head(&DryRun, scratch, gathered.view(), logits.reborrow())?;
    ScoreMemory::take(&inner, ScoreShape::largest(scored));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_clients_ask_of_256_rows_passes_through_some_megabytes() {
        let config = ExecutorConfig {
            max_rows: 256,
            max_step_tokens: 8192 + 256,
            pages: 1000,
            page_size: 64,
            max_sequence_tokens: 131_072,
            max_step_scores: 1 << 20,
            run_ahead: 2,
            kv_dtype: DType::BF16,
        };
        let sizes = TransferSizes {
            inputs: 172_160,
            extras: 531_456,
            readback: 5_769_216,
        };
        assert_eq!(TransferSizes::of(&config), sizes);
        assert_eq!(transfer_bytes(&config), 18_011_264);
    }
}
