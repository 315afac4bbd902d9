use std::sync::Arc;

use ops::{Device, Program};
use tensor::{DType, Scratch};

use crate::ExecutorConfig;
use crate::lists::Lists;
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

/// Bytes of scratch that the largest step needs: values of its program, and what is done with what it left.
pub fn measure_scratch(
    program: &Arc<Program>,
    config: &ExecutorConfig,
    device: &dyn Device,
) -> usize {
    let lists = Lists::new(program, device, config);
    lists.bytes() + service_bytes(&lists, config)
}

/// Bytes of scratch for what is done with what steps left: scoring a slice of a prompt, or the sampled rows, with as many
/// scores as a client may ask.
pub(crate) fn service_bytes(lists: &Lists, config: &ExecutorConfig) -> usize {
    let scratch = Scratch::measuring();
    let scope = scratch.scope();
    let _head = scope.matrix(1, lists.head().layout.bytes(), DType::U8);
    let _rows = scope.matrix(SCORED_AT_ONCE, lists.hidden(), lists.head().activation);
    let scored = config.max_rows.max(SCORED_AT_ONCE);
    ScoreMemory::take(&scope, ScoreShape::largest(scored));
    scratch.peak()
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
