use std::ops::Range;

use ops::{Attend, Heads};
use tensor::{Element, View};

use super::block::BLOCK;
use super::{MANY, PAIRS, SPAN};
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
    keys: *const E,
    values: *const E,
    /// Elements from slot to slot, in keys and values.
    strides: (usize, usize),
    slots: usize,
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
}

// SAFETY: keys and values are only read, and borrowed for 'a.
unsafe impl<E: Sync> Sync for Layer<'_, E> {}

impl<'a, E: Element> Layer<'a, E> {
    pub(super) fn new(op: Attend<'a>) -> Self {
        let (keys, values) = (op.cache.keys(), op.cache.values());
        if op.cache.slots() > 0 {
            // Checks place and type once.
            let _ = (keys.row::<E>(0), values.row::<E>(0));
        }
        Self {
            query: op.query,
            keys: keys.address().cast(),
            values: values.address().cast(),
            strides: (keys.stride(), values.stride()),
            slots: op.cache.slots(),
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
        }
    }
}

impl<E> Layer<'_, E> {
    /// Pairs of token and query head that one item has at most.
    pub(super) fn pairs(&self) -> usize {
        self.tokens * self.heads.group()
    }

    /// True when an item has enough pairs, or heads of such a size, that blocks are better widened once for all.
    #[inline(always)]
    pub(super) fn widened(&self, item: &Item) -> bool {
        item.tokens * self.heads.group() > MANY || !self.heads.dim.is_multiple_of(LANES)
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

    /// Where key and value of one head lie at a slot.
    #[inline(always)]
    pub(super) fn at(&self, slot: u32, kv_head: usize) -> (*const E, *const E) {
        let (slot, column) = (slot as usize, kv_head * self.heads.dim);
        assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        (
            self.keys.wrapping_add(slot * self.strides.0 + column),
            self.values.wrapping_add(slot * self.strides.1 + column),
        )
    }

    /// Asks the second cache for keys and values of some heads: the first one could only wait for few lines at once.
    #[inline(always)]
    pub(super) fn prefetch(&self, slots: &[u32], kv_heads: Range<usize>) {
        let bytes = kv_heads.len() * self.heads.dim * E::DTYPE.size();
        for &slot in slots {
            let (key, value) = self.at(slot, kv_heads.start);
            for offset in (0..bytes).step_by(64) {
                prefetch(key.cast::<u8>().wrapping_add(offset));
                prefetch(value.cast::<u8>().wrapping_add(offset));
            }
        }
    }
}

/// Asks the memory for a cache line.
#[inline(always)]
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a hint that never faults, on every x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
