//! Attention over pages: keys and values in blocks aligned to absolute positions, softmax on the fly.
//!
//! A token's result is made block by block in order of position and every lane on its own, so that neither the batch nor
//! the chunking of its prompt changes a bit. Query heads of a group and neighbouring tokens share each block.

mod block;
mod pairs;

use half::f16;
use ops::{Attend, Heads, OpError, RaggedBatch};
use tensor::{DType, View};

use super::rows::RowsMut;
use super::store_kv::Stored;
use super::{CpuKernels, f32_only};
use crate::gemm::Shared;
use crate::simd::{LANES, Simd, Vectorised};

use block::{BLOCK, Block};
use pairs::Pairs;

/// Pairs of token and query head that one task takes through the blocks together, about.
const PAIRS: usize = 24;

/// Memory kept from op to op.
#[derive(Default)]
pub(super) struct Workspace {
    items: Vec<Item>,
    floats: Vec<f32>,
}

/// Some new tokens of a sequence.
#[derive(Clone, Copy)]
struct Item {
    /// The sequence's row of the page table.
    table_row: u32,
    /// Its first token in the batch.
    token: usize,
    tokens: usize,
    /// Where that token stands.
    position: usize,
}

pub(super) fn attend(kernels: &CpuKernels, op: Attend<'_>) -> Result<(), OpError> {
    f32_only(
        "attend",
        &[("query", op.query.dtype()), ("out", op.out.dtype())],
    )?;
    match op.cache.dtype() {
        DType::F16 => run::<f16>(kernels, op),
        DType::F32 => run::<f32>(kernels, op),
        found => {
            return Err(OpError::Type {
                op: "attend",
                what: "cache",
                found,
            });
        }
    }
    Ok(())
}

fn run<E: Stored>(kernels: &CpuKernels, op: Attend<'_>) {
    let workspace = &mut *kernels.attention.borrow_mut();
    list_items(&op.batch, op.heads.group(), &mut workspace.items);
    let padded = op.heads.dim.next_multiple_of(LANES);
    let pairs = (PAIRS / op.heads.group()).max(1) * op.heads.group();
    let floats = Block::floats(padded) + Pairs::floats(pairs, padded);
    let needed = floats * kernels.team.threads();
    if workspace.floats.len() < needed {
        workspace.floats.resize(needed, 0.0);
    }
    let scratch = Shared(workspace.floats.as_mut_ptr());
    let layer = Layer::<E> {
        query: op.query,
        keys: op.cache.keys(),
        values: op.cache.values(),
        batch: op.batch,
        heads: op.heads,
        scale: op.scale,
        window: op.window,
        soft_cap: op.soft_cap,
        sinks: op.sinks.map(|sinks| sinks.into_slice::<f32>()),
        out: RowsMut::new(op.out),
        element: std::marker::PhantomData,
    };
    let (items, level) = (&workspace.items, kernels.level);
    kernels
        .team
        .run_on(items.len() * op.heads.kv, |thread, task| {
            // SAFETY: one task at a time on a thread, and each thread has its own part.
            let memory = unsafe {
                std::slice::from_raw_parts_mut(scratch.get().add(thread * floats), floats)
            };
            // The longest ones first, so that no thread is left with one at the end.
            let item = items[items.len() - 1 - task / op.heads.kv];
            level.run(Task {
                layer: &layer,
                item,
                kv_head: task % op.heads.kv,
                memory,
            });
        });
}

fn list_items(batch: &RaggedBatch<'_>, group: usize, items: &mut Vec<Item>) {
    let (starts, lengths) = (batch.starts.row::<u32>(0), batch.lengths.row::<u32>(0));
    let table_rows = batch.table_rows.row::<u32>(0);
    let height = (PAIRS / group).max(1);
    items.clear();
    for row in 0..batch.rows() {
        let (first, end) = (starts[row] as usize, starts[row + 1] as usize);
        let oldest = lengths[row] as usize - (end - first);
        for token in (first..end).step_by(height) {
            items.push(Item {
                table_row: table_rows[row],
                token,
                tokens: height.min(end - token),
                position: oldest + (token - first),
            });
        }
    }
}

/// What all tasks share.
struct Layer<'a, E> {
    query: View<'a>,
    keys: View<'a>,
    values: View<'a>,
    batch: RaggedBatch<'a>,
    heads: Heads,
    scale: f32,
    window: Option<usize>,
    soft_cap: Option<f32>,
    sinks: Option<&'a [f32]>,
    out: RowsMut<'a, f32>,
    element: std::marker::PhantomData<fn() -> E>,
}

/// One item and one key head.
struct Task<'a, E> {
    layer: &'a Layer<'a, E>,
    item: Item,
    kv_head: usize,
    memory: &'a mut [f32],
}

impl<E: Stored> Vectorised for Task<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (layer, item) = (self.layer, self.item);
        let (dim, group) = (layer.heads.dim, layer.heads.group());
        let padded = dim.next_multiple_of(LANES);
        let (block, pairs) = self.memory.split_at_mut(Block::floats(padded));
        let mut block = Block::new(block, padded);
        let mut pairs = Pairs::new(pairs, item.tokens * group, padded);
        for pair in 0..item.tokens * group {
            let head = self.kv_head * group + pair % group;
            let query = &layer.query.row::<f32>(item.token + pair / group)[head * dim..][..dim];
            pairs.start(
                s,
                pair,
                query,
                layer.scale,
                layer.sinks.map(|sinks| sinks[head]),
            );
        }
        let last = item.position + item.tokens - 1;
        let pages = layer.batch.page_table.row::<u32>(item.table_row as usize);
        let first = layer.oldest(item.position) / BLOCK;
        for index in first..=last / BLOCK {
            let start = index * BLOCK;
            let end = (start + BLOCK).min(last + 1);
            let slots = |position: usize| {
                let size = layer.batch.page_size;
                pages[position / size] as usize * size + position % size
            };
            block.fill(
                s,
                start.max(layer.oldest(item.position))..end,
                slots,
                |slot| {
                    let columns = self.kv_head * dim..(self.kv_head + 1) * dim;
                    (
                        &layer.keys.row::<E>(slot)[columns.clone()],
                        &layer.values.row::<E>(slot)[columns],
                    )
                },
            );
            for pair in 0..item.tokens * group {
                let position = item.position + pair / group;
                let visible = layer.oldest(position).max(start)..(position + 1).min(end);
                if !visible.is_empty() {
                    let lanes = visible.start - start..visible.end - start;
                    pairs.take(s, pair, &block, lanes, layer.soft_cap);
                }
            }
        }
        for pair in 0..item.tokens * group {
            let head = self.kv_head * group + pair % group;
            let columns = head * dim..(head + 1) * dim;
            // SAFETY: this task alone writes these heads of these tokens.
            let out = unsafe { layer.out.part(item.token + pair / group, columns) };
            pairs.finish(s, pair, out);
        }
    }
}

impl<E> Layer<'_, E> {
    /// The first position that a token at `position` sees.
    #[inline(always)]
    fn oldest(&self, position: usize) -> usize {
        self.window
            .map_or(0, |window| (position + 1).saturating_sub(window))
    }
}
