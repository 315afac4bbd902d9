//! Attention over pages: keys and values in blocks aligned to absolute positions, softmax on the fly.
//!
//! A token's result is made from spans of positions in order, each of them block by block and every lane on its own, so
//! that neither the batch, the chunking of its prompt nor the number of threads changes a bit. Query heads of a group and
//! neighbouring tokens share each block.

mod block;
mod head;
mod layer;
mod state;
mod task;

use std::ops::Range;

use half::f16;
use ops::{Attend, OpError, RaggedBatch};
use tensor::{Buffer, DType};

use super::store_kv::Stored;
use super::{CpuKernels, f32_only};
use crate::gemm::Shared;
use crate::simd::LANES;

use layer::{Item, Layer};
use task::{Part, Task};

/// Sixteen floats, a register.
type Vector = [f32; LANES];

/// Pairs of token and query head that one task takes through the blocks together, about.
const PAIRS: usize = 24;
/// Pairs of an item from which on its heads are better taken one by one.
const MANY: usize = 16;
/// Positions that are summed by themselves before they are added to those before them.
const SPAN: usize = 128;

/// Memory kept from op to op.
pub(super) struct Workspace {
    items: Vec<Item>,
    memory: Buffer,
}

impl Default for Workspace {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            memory: Buffer::host(1 << 18),
        }
    }
}

impl Workspace {
    fn vectors(&mut self, count: usize) -> Shared<Vector> {
        let bytes = count * size_of::<Vector>();
        if self.memory.bytes() < bytes {
            self.memory = Buffer::host(bytes.next_power_of_two());
        }
        Shared(self.memory.address().cast())
    }
}

pub(super) fn attend(kernels: &CpuKernels, op: Attend<'_>) -> Result<(), OpError> {
    let types = [("query", op.query.dtype()), ("out", op.out.dtype())];
    f32_only("attend", &types)?;
    match op.cache.dtype() {
        DType::F16 => run::<f16>(kernels, op),
        DType::F32 => run::<f32>(kernels, op),
        found => {
            let (op, what) = ("attend", "cache");
            return Err(OpError::Type { op, what, found });
        }
    }
    Ok(())
}

fn run<E: Stored>(kernels: &CpuKernels, op: Attend<'_>) {
    let workspace = &mut *kernels.attention.borrow_mut();
    let (kv, batch) = (op.heads.kv, op.batch);
    let layer = Layer::<E>::new(op);
    let spans = list_items(&layer, &batch, &mut workspace.items);
    let (items, threads) = (workspace.items.len(), kernels.pool.threads());
    // Tasks enough for everybody: items alone, else their spans apart, else also their heads. Memory is read in order
    // when heads stay together; many tokens rather want one head's block to stay in the innermost cache.
    let wanted = 4 * threads;
    let apart = if items * kv < wanted { spans } else { 1 };
    let few = batch.max_query * layer.heads.group() <= MANY;
    let together = if few && items * apart >= threads {
        kv
    } else {
        1
    };
    let (own, one) = (
        task::own_vectors(&layer, together),
        task::state_vectors(&layer),
    );
    let memory = workspace.vectors(threads * own + items * apart * kv * one);
    let (list, level) = (&workspace.items, kernels.level);
    let run = |thread: usize, item: usize, part: Part, states: Range<usize>| {
        // SAFETY: one task at a time on a thread, and each has its own states.
        let (own, states_of_task) = unsafe {
            let first = memory.get().add(threads * own + states.start * one);
            (
                std::slice::from_raw_parts_mut(memory.get().add(thread * own), own),
                std::slice::from_raw_parts_mut(first, states.len() * one),
            )
        };
        let first_head = states.start % kv;
        level.run(Task {
            layer: &layer,
            // The longest ones first, so that no thread is left with one at the end.
            item: &list[items - 1 - item],
            kv_heads: first_head..(first_head + states.len()).min(kv),
            part,
            own,
            states: states_of_task,
        });
    };
    // States lie in the order of items, spans and heads.
    let parts = kv / together;
    kernels.pool.run_on(items * apart * parts, |thread, task| {
        let (item, span) = (task / parts / apart, task / parts % apart);
        let part = if apart == 1 {
            Part::Whole
        } else {
            Part::Span(span)
        };
        let first = task / parts * kv + task % parts * together;
        run(thread, item, part, first..first + together);
    });
    if apart > 1 {
        kernels.pool.run_on(items, |thread, item| {
            run(
                thread,
                item,
                Part::Join,
                item * apart * kv..(item + 1) * apart * kv,
            );
        });
    }
}

/// Lists the tokens of a batch in parts; returns how many spans the longest part sees.
fn list_items<E>(layer: &Layer<'_, E>, batch: &RaggedBatch<'_>, items: &mut Vec<Item>) -> usize {
    let (starts, lengths) = (batch.starts.row::<u32>(0), batch.lengths.row::<u32>(0));
    let table_rows = batch.table_rows.row::<u32>(0);
    items.clear();
    for row in 0..batch.rows() {
        let (first, end) = (starts[row] as usize, starts[row + 1] as usize);
        let oldest = lengths[row] as usize - (end - first);
        for token in (first..end).step_by(layer.tokens) {
            items.push(Item {
                table_row: table_rows[row] as usize,
                token,
                tokens: layer.tokens.min(end - token),
                position: oldest + (token - first),
            });
        }
    }
    let spans = |item: &Item| layer.spans(item).len();
    items.iter().map(spans).max().unwrap_or(0)
}
