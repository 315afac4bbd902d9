//! Attention over pages: keys and values in blocks aligned to absolute positions, softmax on the fly.
//!
//! A token's result is made from spans of positions in order, each of them block by block and every lane on its own, so
//! that neither the batch, the chunking of its prompt nor the number of threads changes a bit. Query heads of a group and
//! neighbouring tokens share each block.

mod block;
mod layer;
mod state;
mod task;

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
/// Positions that are summed by themselves before they are added to those before them.
const SPAN: usize = 256;

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
    let (heads, batch) = (op.heads, op.batch);
    let layer = Layer::<E>::new(op);
    let spans = list_items(&layer, &batch, &mut workspace.items);
    let (threads, tasks) = (kernels.team.threads(), workspace.items.len() * heads.kv);
    // Few tasks over many positions: the spans themselves are shared out, and added afterwards.
    let apart = if tasks < 4 * threads && spans > 1 {
        spans
    } else {
        1
    };
    let (own, one) = (task::own_vectors(&layer), task::state_vectors(&layer));
    let memory = workspace.vectors(threads * own + tasks * apart * one);
    let (items, level) = (&workspace.items, kernels.level);
    let run = |thread: usize, task: usize, states: std::ops::Range<usize>, part: Part| {
        // SAFETY: one task at a time on a thread, and each has its own states.
        let (own, states) = unsafe {
            let states_start = memory.get().add(threads * own + states.start * one);
            (
                std::slice::from_raw_parts_mut(memory.get().add(thread * own), own),
                std::slice::from_raw_parts_mut(states_start, states.len() * one),
            )
        };
        level.run(Task {
            layer: &layer,
            // The longest ones first, so that no thread is left with one at the end.
            item: &items[items.len() - 1 - task / heads.kv],
            kv_head: task % heads.kv,
            part,
            own,
            states,
        });
    };
    if apart == 1 {
        kernels.team.run_on(tasks, |thread, task| {
            run(thread, task, task..task + 1, Part::Whole);
        });
        return;
    }
    kernels.team.run_on(tasks * spans, |thread, index| {
        let part = Part::Span(index % spans);
        run(thread, index / spans, index..index + 1, part);
    });
    kernels.team.run_on(tasks, |thread, task| {
        run(thread, task, task * spans..(task + 1) * spans, Part::Join);
    });
}

/// Lists the tokens of a batch in pieces; says how many spans the longest piece sees.
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
