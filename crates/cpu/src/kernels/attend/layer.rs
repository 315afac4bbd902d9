use std::marker::PhantomData;
use std::ops::Range;

use ops::{Attend, Heads};
use tensor::View;

use super::block::BLOCK;
use super::{PAIRS, SPAN};
use crate::kernels::rows::RowsMut;
use crate::kernels::store_kv::Stored;
use crate::simd::LANES;

/// Some neighbouring new tokens of a sequence.
pub(super) struct Item {
    /// The sequence's row of the page table.
    pub(super) table_row: usize,
    /// Its first token in the batch.
    pub(super) token: usize,
    pub(super) tokens: usize,
    /// Where that token stands.
    pub(super) position: usize,
}

impl Item {
    /// Where its last token stands.
    pub(super) fn last(&self) -> usize {
        self.position + self.tokens - 1
    }
}

/// What all tasks share.
pub(super) struct Layer<'a, E> {
    pub(super) query: View<'a>,
    keys: View<'a>,
    values: View<'a>,
    page_table: View<'a>,
    page_size: usize,
    pub(super) heads: Heads,
    pub(super) scale: f32,
    window: Option<usize>,
    pub(super) soft_cap: Option<f32>,
    pub(super) sinks: Option<&'a [f32]>,
    pub(super) out: RowsMut<'a, f32>,
    /// Vectors in a head.
    pub(super) chunks: usize,
    /// Tokens that one item has at most.
    pub(super) tokens: usize,
    element: PhantomData<fn() -> E>,
}

impl<'a, E> Layer<'a, E> {
    pub(super) fn new(op: Attend<'a>) -> Self {
        Self {
            query: op.query,
            keys: op.cache.keys(),
            values: op.cache.values(),
            page_table: op.batch.page_table,
            page_size: op.batch.page_size,
            heads: op.heads,
            scale: op.scale,
            window: op.window,
            soft_cap: op.soft_cap,
            sinks: op.sinks.map(View::into_slice::<f32>),
            out: RowsMut::new(op.out),
            chunks: op.heads.dim.div_ceil(LANES),
            tokens: (PAIRS / op.heads.group()).max(1),
            element: PhantomData,
        }
    }

    /// Pairs of token and query head that one item has at most.
    pub(super) fn pairs(&self) -> usize {
        self.tokens * self.heads.group()
    }

    /// The first position that a token at `position` sees.
    #[inline(always)]
    pub(super) fn oldest(&self, position: usize) -> usize {
        self.window
            .map_or(0, |window| (position + 1).saturating_sub(window))
    }

    /// The spans that an item sees.
    pub(super) fn spans(&self, item: &Item) -> Range<usize> {
        self.oldest(item.position) / SPAN..item.last() / SPAN + 1
    }
}

impl<E: Stored> Layer<'_, E> {
    /// Slots of the given positions, all of one block, at their places in the block.
    #[inline(always)]
    pub(super) fn slots(&self, table_row: usize, positions: Range<usize>) -> [u32; BLOCK] {
        let pages = self.page_table.row::<u32>(table_row);
        let mut slots = [0; BLOCK];
        let mut position = positions.start;
        while position < positions.end {
            let (page, offset) = (position / self.page_size, position % self.page_size);
            let run = (self.page_size - offset).min(positions.end - position);
            let first = pages[page] as usize * self.page_size + offset;
            let place = position % BLOCK;
            for (slot, to) in (first..).zip(&mut slots[place..place + run]) {
                *to = slot as u32;
            }
            position += run;
        }
        slots
    }

    /// Key and value of one head at a slot.
    #[inline(always)]
    pub(super) fn at(&self, slot: u32, kv_head: usize) -> (&[E], &[E]) {
        let columns = kv_head * self.heads.dim..(kv_head + 1) * self.heads.dim;
        (
            &self.keys.row::<E>(slot as usize)[columns.clone()],
            &self.values.row::<E>(slot as usize)[columns],
        )
    }

    /// Asks for a key and a value before they are needed.
    #[inline(always)]
    pub(super) fn prefetch(&self, slot: u32, kv_head: usize) {
        let bytes = self.heads.dim * E::DTYPE.size();
        let (key, value) = self.at(slot, kv_head);
        for offset in (0..bytes).step_by(64) {
            prefetch(key.as_ptr().cast::<u8>().wrapping_add(offset));
            prefetch(value.as_ptr().cast::<u8>().wrapping_add(offset));
        }
    }
}

/// Asks the memory for a cache line.
#[inline(always)]
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint that never faults, on every x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
