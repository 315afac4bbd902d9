use super::block::{BLOCK, Block};
use super::layer::{Item, Layer};
use super::state::{self, State};
use super::{SPAN, Vector};
use crate::kernels::store_kv::Stored;
use crate::simd::{Simd, Vectorised};

/// Memory that a thread needs for itself: a block, the queries of an item, and their states in a span.
pub(super) fn own_vectors<E>(layer: &Layer<'_, E>) -> usize {
    Block::vectors(layer.chunks) + layer.pairs() * layer.chunks + state_vectors(layer)
}

/// Memory for the states of an item.
pub(super) fn state_vectors<E>(layer: &Layer<'_, E>) -> usize {
    layer.pairs() * state::vectors(layer.chunks)
}

/// What is done in one go.
#[derive(Clone, Copy)]
pub(super) enum Part {
    /// An item from queries to results; one set of states.
    Whole,
    /// One span of an item, counted from its first; the states are its result.
    Span(usize),
    /// The results of an item from the states of all its spans.
    Join,
}

/// One item and one key head.
pub(super) struct Task<'a, E> {
    pub(super) layer: &'a Layer<'a, E>,
    pub(super) item: &'a Item,
    pub(super) kv_head: usize,
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
        let layer = self.layer;
        let (block, rest) = self.own.split_at_mut(Block::vectors(layer.chunks));
        let (queries, spare) = rest.split_at_mut(layer.pairs() * layer.chunks);
        let pass = Pass {
            layer,
            item: self.item,
            kv_head: self.kv_head,
        };
        let spans = layer.spans(self.item);
        match self.part {
            Part::Whole => {
                pass.start(s, self.states);
                pass.queries(s, queries);
                for span in spans {
                    pass.span(s, span, Block::new(block, layer.chunks), queries, spare);
                    pass.add(s, spare, self.states);
                }
                pass.finish(s, self.states);
            }
            Part::Span(index) if index < spans.len() => {
                pass.queries(s, queries);
                let block = Block::new(block, layer.chunks);
                pass.span(s, spans.start + index, block, queries, self.states);
            }
            Part::Span(_) => {}
            Part::Join => {
                pass.start(s, spare);
                let each = self.states.chunks_exact_mut(state_vectors(layer));
                for states in each.take(spans.len()) {
                    pass.add(s, states, spare);
                }
                pass.finish(s, spare);
            }
        }
    }
}

/// The steps of a task. A pair is a token of the item and a query head of the group.
struct Pass<'a, E> {
    layer: &'a Layer<'a, E>,
    item: &'a Item,
    kv_head: usize,
}

impl<E: Stored> Pass<'_, E> {
    fn pairs(&self) -> usize {
        self.item.tokens * self.layer.heads.group()
    }

    /// The token of a pair in the batch, and its query head.
    fn token_and_head(&self, pair: usize) -> (usize, usize) {
        let group = self.layer.heads.group();
        (
            self.item.token + pair / group,
            self.kv_head * group + pair % group,
        )
    }

    /// The memory of the state of each pair.
    #[inline(always)]
    fn each<'m>(&self, states: &'m mut [Vector]) -> impl Iterator<Item = &'m mut [Vector]> {
        states
            .chunks_exact_mut(state::vectors(self.layer.chunks))
            .take(self.pairs())
    }

    #[inline(always)]
    fn start<S: Simd>(&self, s: S, states: &mut [Vector]) {
        for (pair, state) in self.each(states).enumerate() {
            let (_, head) = self.token_and_head(pair);
            State::new(state).start(s, self.layer.sinks.map(|sinks| sinks[head]));
        }
    }

    /// Brings in the queries, scaled and padded with zeros.
    #[inline(always)]
    fn queries<S: Simd>(&self, s: S, queries: &mut [Vector]) {
        let dim = self.layer.heads.dim;
        for pair in 0..self.pairs() {
            let (token, head) = self.token_and_head(pair);
            let query = &self.layer.query.row::<f32>(token)[head * dim..][..dim];
            let to = &mut queries[pair * self.layer.chunks..][..self.layer.chunks];
            for vector in to.iter_mut() {
                s.store(s.splat(0.0), vector);
            }
            for (to, &value) in to.as_flattened_mut().iter_mut().zip(query) {
                *to = value * self.layer.scale;
            }
        }
    }

    /// Takes the pairs through the blocks of one span, from fresh states on.
    #[inline(always)]
    fn span<S: Simd>(
        &self,
        s: S,
        span: usize,
        mut block: Block<'_>,
        queries: &[Vector],
        states: &mut [Vector],
    ) {
        let (layer, item) = (self.layer, self.item);
        for state in self.each(states) {
            State::new(state).start(s, None);
        }
        let first = layer.oldest(item.position).max(span * SPAN);
        let end = (item.last() + 1).min((span + 1) * SPAN);
        let positions = |start: usize| first.max(start)..end.min(start + BLOCK);
        let mut start = first / BLOCK * BLOCK;
        let mut slots = layer.slots(item.table_row, positions(start));
        while start < end {
            // While a block is brought in, the next one is asked for, also when it is another span's.
            let after = start + BLOCK..(item.last() + 1).min(start + 2 * BLOCK);
            let next = layer.slots(item.table_row, after.clone());
            for position in positions(start) {
                let place = position % BLOCK;
                if place < after.len() {
                    layer.prefetch(next[place], self.kv_head);
                }
                let (key, value) = layer.at(slots[place], self.kv_head);
                block.fill(s, place, key, value);
            }
            slots = next;
            self.block(s, start, end, &block, queries, states);
            start += BLOCK;
        }
    }

    /// Takes all pairs through one block: neighbours that see the same of it go together.
    #[inline(always)]
    fn block<S: Simd>(
        &self,
        s: S,
        start: usize,
        end: usize,
        block: &Block<'_>,
        queries: &[Vector],
        states: &mut [Vector],
    ) {
        let (layer, item, group) = (self.layer, self.item, self.layer.heads.group());
        let visible = |pair: usize| {
            let position = item.position + pair / group;
            let newest = (position + 1).min(end).min(start + BLOCK);
            layer.oldest(position).max(start)..newest.max(start)
        };
        let (chunks, record) = (layer.chunks, state::vectors(layer.chunks));
        let mut pair = 0;
        while pair < self.pairs() {
            let seen = visible(pair);
            let last = (pair + S::PAIRS).min(self.pairs());
            let mut together = 1;
            while pair + together < last && visible(pair + together) == seen {
                together += 1;
            }
            let queries = &queries[pair * chunks..(pair + together) * chunks];
            let states = &mut states[pair * record..(pair + together) * record];
            pair += together;
            if seen.is_empty() {
                continue;
            }
            let places = seen.start - start..seen.end - start;
            let cap = layer.soft_cap;
            match together {
                4 => state::take::<S, 4>(s, queries, states, block, places, cap),
                3 => state::take::<S, 3>(s, queries, states, block, places, cap),
                2 => state::take::<S, 2>(s, queries, states, block, places, cap),
                _ => state::take::<S, 1>(s, queries, states, block, places, cap),
            }
        }
    }

    #[inline(always)]
    fn add<S: Simd>(&self, s: S, from: &mut [Vector], to: &mut [Vector]) {
        for (from, to) in self.each(from).zip(self.each(to)) {
            State::new(to).add(s, &State::new(from));
        }
    }

    #[inline(always)]
    fn finish<S: Simd>(&self, s: S, states: &mut [Vector]) {
        let dim = self.layer.heads.dim;
        for (pair, state) in self.each(states).enumerate() {
            let (token, head) = self.token_and_head(pair);
            // SAFETY: this task alone writes these heads of these tokens.
            let out = unsafe { self.layer.out.part(token, head * dim..(head + 1) * dim) };
            State::new(state).finish(s, out);
        }
    }
}
