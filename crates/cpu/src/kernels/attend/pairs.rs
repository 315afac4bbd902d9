use std::ops::Range;

use super::block::{BLOCK, Block, lanes, lanes_mut};
use crate::simd::{LANES, Simd, math};

/// Columns of sixteen that are summed together while the weights of a block are walked.
const TOGETHER: usize = 4;

/// Pairs of token and query head on their way through the blocks: query, weighted sum, largest score, sum of weights.
pub(super) struct Pairs<'a> {
    queries: &'a mut [f32],
    sums: &'a mut [f32],
    totals: &'a mut [f32],
    largest: &'a mut [f32],
    padded: usize,
}

impl<'a> Pairs<'a> {
    /// Memory for so many pairs.
    pub(super) fn floats(pairs: usize, padded: usize) -> usize {
        pairs * (2 * padded + LANES + 1)
    }

    pub(super) fn new(memory: &'a mut [f32], pairs: usize, padded: usize) -> Self {
        let (queries, rest) = memory.split_at_mut(pairs * padded);
        let (sums, rest) = rest.split_at_mut(pairs * padded);
        let (totals, rest) = rest.split_at_mut(pairs * LANES);
        Self {
            queries,
            sums,
            totals,
            largest: &mut rest[..pairs],
            padded,
        }
    }

    /// Takes a query, scaled; a sink counts as a key that was seen already.
    #[inline(always)]
    pub(super) fn start<S: Simd>(
        &mut self,
        s: S,
        pair: usize,
        query: &[f32],
        scale: f32,
        sink: Option<f32>,
    ) {
        let place = pair * self.padded;
        let to = &mut self.queries[place..place + self.padded];
        let (used, unused) = to.split_at_mut(query.len());
        for (to, &value) in used.iter_mut().zip(query) {
            *to = value * scale;
        }
        unused.fill(0.0);
        self.sums[place..place + self.padded].fill(0.0);
        self.largest[pair] = sink.unwrap_or(f32::NEG_INFINITY);
        let totals = lanes_mut(self.totals, pair * LANES);
        s.store(s.splat(0.0), totals);
        totals[0] = if sink.is_some() { 1.0 } else { 0.0 };
    }

    /// Takes in the visible keys of a block.
    #[inline(always)]
    pub(super) fn take<S: Simd>(
        &mut self,
        s: S,
        pair: usize,
        block: &Block<'_>,
        visible: Range<usize>,
        soft_cap: Option<f32>,
    ) {
        let mut scores = [f32::NEG_INFINITY; BLOCK];
        for half in visible.start / LANES..=(visible.end - 1) / LANES {
            let score = self.scores(s, pair, block, half * LANES);
            let score = match soft_cap {
                Some(cap) => s.mul(s.splat(cap), math::tanh(s, s.div(score, s.splat(cap)))),
                None => score,
            };
            s.store(score, lanes_mut(&mut scores, half * LANES));
        }
        scores[..visible.start].fill(f32::NEG_INFINITY);
        scores[visible.end..].fill(f32::NEG_INFINITY);
        let (low, high) = (s.load(lanes(&scores, 0)), s.load(lanes(&scores, LANES)));
        let before = self.largest[pair];
        let largest = before.max(s.largest(s.max(low, high)));
        if largest == f32::NEG_INFINITY {
            return;
        }
        self.largest[pair] = largest;
        let top = s.splat(largest);
        let shrink = math::exp(s, s.sub(s.splat(before), top));
        let (low, high) = (
            math::exp(s, s.sub(low, top)),
            math::exp(s, s.sub(high, top)),
        );
        s.store(low, lanes_mut(&mut scores, 0));
        s.store(high, lanes_mut(&mut scores, LANES));
        let total = lanes_mut(self.totals, pair * LANES);
        s.store(s.add(s.mul_add(s.load(total), shrink, low), high), total);
        let place = pair * self.padded;
        let sums = &mut self.sums[place..place + self.padded];
        let (fours, rest) = sums.as_chunks_mut::<{ TOGETHER * LANES }>();
        for (index, sums) in fours.iter_mut().enumerate() {
            let chunk = index * TOGETHER;
            mix::<S, TOGETHER>(s, sums, block, chunk, &scores, visible.clone(), shrink);
        }
        for (index, sums) in rest.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            let chunk = fours.len() * TOGETHER + index;
            mix::<S, 1>(s, sums, block, chunk, &scores, visible.clone(), shrink);
        }
    }

    /// Products of a query with the sixteen keys from `first` on.
    #[inline(always)]
    fn scores<S: Simd>(&self, s: S, pair: usize, block: &Block<'_>, first: usize) -> S::F {
        let mut products = [s.splat(0.0); LANES];
        for chunk in 0..self.padded / LANES {
            let query = s.load(lanes(self.queries, pair * self.padded + chunk * LANES));
            for (key, product) in products.iter_mut().enumerate() {
                *product = s.mul_add(query, s.load(block.key(first + key, chunk)), *product);
            }
        }
        s.sums(products)
    }

    /// Writes the weighted mean.
    #[inline(always)]
    pub(super) fn finish<S: Simd>(&self, s: S, pair: usize, out: &mut [f32]) {
        let total = s.sum(s.load(lanes(self.totals, pair * LANES)));
        let place = pair * self.padded;
        for (out, &sum) in out.iter_mut().zip(&self.sums[place..place + self.padded]) {
            *out = sum / total;
        }
    }
}

/// sums = sums · shrink + Σ weight · value, for `C` columns of sixteen.
#[inline(always)]
fn mix<S: Simd, const C: usize>(
    s: S,
    sums: &mut [f32],
    block: &Block<'_>,
    chunk: usize,
    weights: &[f32; BLOCK],
    visible: Range<usize>,
    shrink: S::F,
) {
    let mut mixed: [S::F; C] =
        std::array::from_fn(|c| s.mul(s.load(lanes(sums, c * LANES)), shrink));
    for key in visible {
        let weight = s.splat(weights[key]);
        for (c, mixed) in mixed.iter_mut().enumerate() {
            *mixed = s.mul_add(weight, s.load(block.value(key, chunk + c)), *mixed);
        }
    }
    for (c, &mixed) in mixed.iter().enumerate() {
        s.store(mixed, lanes_mut(sums, c * LANES));
    }
}
