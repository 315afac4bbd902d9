use super::Vector;
use super::block::{BLOCK, Block};
use super::layer::{Item, Layer};
use super::state::{self, State};
use crate::kernels::store_kv::Stored;
use crate::simd::Simd;

/// An item at one key head. A pair is a token of the item and a query head of the group.
pub(super) struct Head<'a, E> {
    pub(super) layer: &'a Layer<'a, E>,
    pub(super) item: &'a Item,
    pub(super) index: usize,
}

impl<E: Stored> Head<'_, E> {
    fn pairs(&self) -> usize {
        self.item.tokens * self.layer.heads.group()
    }

    /// The token of a pair in the batch, and its query head.
    fn token_and_head(&self, pair: usize) -> (usize, usize) {
        let group = self.layer.heads.group();
        (
            self.item.token + pair / group,
            self.index * group + pair % group,
        )
    }

    /// The memory of the state of each pair.
    #[inline(always)]
    fn each<'m>(&self, states: &'m mut [Vector]) -> impl Iterator<Item = &'m mut [Vector]> {
        states
            .chunks_exact_mut(state::vectors(self.layer.chunks))
            .take(self.pairs())
    }

    /// States that have seen at most a sink.
    #[inline(always)]
    pub(super) fn start<S: Simd>(&self, s: S, states: &mut [Vector]) {
        for (pair, state) in self.each(states).enumerate() {
            let (_, head) = self.token_and_head(pair);
            State::new(state).start(s, self.layer.sinks.map(|sinks| sinks[head]));
        }
    }

    /// States that have seen nothing.
    #[inline(always)]
    pub(super) fn clear<S: Simd>(&self, s: S, states: &mut [Vector]) {
        for state in self.each(states) {
            State::new(state).start(s, None);
        }
    }

    /// Brings in the queries, scaled and padded with zeros.
    #[inline(always)]
    pub(super) fn queries<S: Simd>(&self, s: S, queries: &mut [Vector]) {
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

    /// Takes all pairs through the block at `start`: neighbours that see the same of it go together.
    #[inline(always)]
    pub(super) fn take<S: Simd, B: Stored>(
        &self,
        s: S,
        start: usize,
        end: usize,
        block: &Block<B>,
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
            // Two and two rather than three and one.
            let most = if self.pairs() - pair == 4 {
                2
            } else {
                S::PAIRS
            };
            let last = (pair + most).min(self.pairs());
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
                3 => state::take::<S, B, 3>(s, queries, states, block, places, cap),
                2 => state::take::<S, B, 2>(s, queries, states, block, places, cap),
                _ => state::take::<S, B, 1>(s, queries, states, block, places, cap),
            }
        }
    }

    /// Adds the states of a span to those of the spans before it.
    #[inline(always)]
    pub(super) fn add<S: Simd>(&self, s: S, from: &mut [Vector], to: &mut [Vector]) {
        for (from, to) in self.each(from).zip(self.each(to)) {
            State::new(to).add(s, &State::new(from));
        }
    }

    /// Writes the results.
    #[inline(always)]
    pub(super) fn finish<S: Simd>(&self, s: S, states: &mut [Vector]) {
        let dim = self.layer.heads.dim;
        for (pair, state) in self.each(states).enumerate() {
            let (token, head) = self.token_and_head(pair);
            // SAFETY: this task alone writes these heads of these tokens.
            let out = unsafe { self.layer.out.part(token, head * dim..(head + 1) * dim) };
            State::new(state).finish(s, out);
        }
    }
}
