use std::ops::Range;

use super::block::{self, BLOCK, Block};
use super::head::Head;
use super::layer::{Item, Layer};
use super::{SPAN, Vector, state};
use crate::kernels::store_kv::Stored;
use crate::simd::{Simd, Vectorised};

/// Memory that a thread needs for itself: copies of a block, and for each key head queries and states of an item.
pub(super) fn own_vectors<E>(layer: &Layer<'_, E>, kv_heads: usize) -> usize {
    block::copy_vectors(layer) + kv_heads * (query_vectors(layer) + state_vectors(layer))
}

/// Memory for the queries of an item and one key head.
fn query_vectors<E>(layer: &Layer<'_, E>) -> usize {
    layer.pairs() * layer.chunks
}

/// Memory for the states of an item and one key head.
pub(super) fn state_vectors<E>(layer: &Layer<'_, E>) -> usize {
    layer.pairs() * state::vectors(layer.chunks)
}

/// What is done in one go.
#[derive(Clone, Copy)]
pub(super) enum Part {
    /// An item from queries to results; states of each head.
    Whole,
    /// One span of an item, counted from its first; the states of each head are its result.
    Span(usize),
    /// The results of an item from the states of each span and head.
    Join,
}

/// One item and some key heads.
pub(super) struct Task<'a, E> {
    pub(super) layer: &'a Layer<'a, E>,
    pub(super) item: &'a Item,
    pub(super) kv_heads: Range<usize>,
    pub(super) part: Part,
    /// See [`own_vectors`].
    pub(super) own: &'a mut [Vector],
    /// See [`state_vectors`] and [`Part`].
    pub(super) states: &'a mut [Vector],
}

impl<E: Stored> Vectorised for Task<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (layer, item, kv_heads) = (self.layer, self.item, self.kv_heads);
        let (spans, one) = (layer.spans(item), state_vectors(layer));
        let pass = Pass {
            layer,
            item,
            kv_heads: kv_heads.clone(),
        };
        match self.part {
            Part::Whole => {
                let (copies, queries, spare) = pass.parts(self.own);
                for (kv_head, states) in kv_heads.clone().zip(self.states.chunks_exact_mut(one)) {
                    pass.head(kv_head).start(s, states);
                }
                pass.queries(s, queries);
                for span in spans {
                    pass.span(s, span, copies, queries, spare);
                    let sums = self.states.chunks_exact_mut(one);
                    let added = spare.chunks_exact_mut(one).zip(sums);
                    for (kv_head, (from, to)) in kv_heads.clone().zip(added) {
                        pass.head(kv_head).add(s, from, to);
                    }
                }
                for (kv_head, states) in kv_heads.zip(self.states.chunks_exact_mut(one)) {
                    pass.head(kv_head).finish(s, states);
                }
            }
            Part::Span(index) => {
                let span = spans.start + index;
                if spans.contains(&span) {
                    let (copies, queries, _) = pass.parts(self.own);
                    pass.queries(s, queries);
                    pass.span(s, span, copies, queries, self.states);
                }
            }
            Part::Join => {
                let sums = &mut self.own[..one];
                for kv_head in kv_heads {
                    let head = pass.head(kv_head);
                    head.start(s, sums);
                    let each = self.states.chunks_exact_mut(one).skip(kv_head);
                    for states in each.step_by(layer.heads.kv).take(spans.len()) {
                        head.add(s, states, sums);
                    }
                    head.finish(s, sums);
                }
            }
        }
    }
}

/// The steps of a task that its heads share.
struct Pass<'a, E> {
    layer: &'a Layer<'a, E>,
    item: &'a Item,
    kv_heads: Range<usize>,
}

impl<'a, E: Stored> Pass<'a, E> {
    #[inline(always)]
    fn head(&self, kv_head: usize) -> Head<'a, E> {
        Head {
            layer: self.layer,
            item: self.item,
            index: kv_head,
        }
    }

    /// Copies, queries and states of [`own_vectors`].
    #[inline(always)]
    fn parts<'m>(
        &self,
        own: &'m mut [Vector],
    ) -> (&'m mut [Vector], &'m mut [Vector], &'m mut [Vector]) {
        let (copies, rest) = own.split_at_mut(block::copy_vectors(self.layer));
        let queries = self.kv_heads.len() * query_vectors(self.layer);
        let (queries, states) = rest.split_at_mut(queries);
        (copies, queries, states)
    }

    #[inline(always)]
    fn queries<S: Simd>(&self, s: S, queries: &mut [Vector]) {
        let each = queries.chunks_exact_mut(query_vectors(self.layer));
        for (kv_head, queries) in self.kv_heads.clone().zip(each) {
            self.head(kv_head).queries(s, queries);
        }
    }

    /// Takes all pairs of all heads through the blocks of one span, from fresh states on.
    ///
    /// Heads alternate at each block, so that memory is read about in order.
    #[inline(always)]
    fn span<S: Simd>(
        &self,
        s: S,
        span: usize,
        copies: &mut [Vector],
        queries: &[Vector],
        states: &mut [Vector],
    ) {
        let (layer, item, one) = (self.layer, self.item, state_vectors(self.layer));
        for (kv_head, states) in self.kv_heads.clone().zip(states.chunks_exact_mut(one)) {
            self.head(kv_head).clear(s, states);
        }
        let widened = layer.widened(item);
        let first = layer.oldest(item.position).max(span * SPAN);
        let end = (item.last() + 1).min((span + 1) * SPAN);
        let mut start = first / BLOCK * BLOCK;
        let mut slots = layer.slots(item.table_row, first..end.min(start + BLOCK));
        while start < end {
            let positions = first.max(start)..end.min(start + BLOCK);
            let after = start + BLOCK..(item.last() + 1).min(start + 2 * BLOCK);
            let next = layer.slots(item.table_row, after.clone());
            let share = BLOCK.div_ceil(self.kv_heads.len());
            let each = queries.chunks_exact(query_vectors(layer));
            let with_states = each.zip(states.chunks_exact_mut(one));
            for (kv_head, (queries, states)) in self.kv_heads.clone().zip(with_states) {
                let head = self.head(kv_head);
                let turn = (kv_head - self.kv_heads.start) * share;
                let ahead = turn..(turn + share).min(after.len());
                layer.prefetch(next.get(ahead).unwrap_or_default(), self.kv_heads.clone());
                let places = positions.start - start..positions.end - start;
                if widened {
                    let block = Block::widened(s, layer, &slots, places, kv_head, copies);
                    head.take(s, start, end, &block, queries, states);
                } else {
                    let block = Block::direct(layer, &slots, places, kv_head);
                    head.take(s, start, end, &block, queries, states);
                }
            }
            slots = next;
            start += BLOCK;
        }
    }
}
