//! The running softmax of one pair of token and query head.

use std::ops::Range;

use super::Vector;
use super::block::{BLOCK, Block};
use crate::simd::{LANES, Simd, math};

/// Chunks that are summed together while the weights of a block are walked.
const TOGETHER: usize = 4;

/// Vectors of a state: the weighted sum of values, the lanes of the sum of weights, and the largest score.
pub(super) fn vectors(chunks: usize) -> usize {
    chunks + 2
}

/// A state: see [`vectors`].
pub(super) struct State<'a> {
    sums: &'a mut [Vector],
    total: &'a mut Vector,
    largest: &'a mut Vector,
}

impl<'a> State<'a> {
    /// The state in this memory.
    #[inline(always)]
    pub(super) fn new(memory: &'a mut [Vector]) -> Self {
        let (sums, rest) = memory.split_at_mut(memory.len() - 2);
        let (total, largest) = rest.split_at_mut(1);
        Self {
            sums,
            total: &mut total[0],
            largest: &mut largest[0],
        }
    }

    /// Nothing seen, or only a sink: a key without a value.
    #[inline(always)]
    pub(super) fn start<S: Simd>(&mut self, s: S, sink: Option<f32>) {
        for sum in self.sums.iter_mut() {
            s.store(s.splat(0.0), sum);
        }
        s.store(s.splat(0.0), self.total);
        self.total[0] = if sink.is_some() { 1.0 } else { 0.0 };
        s.store(s.splat(sink.unwrap_or(f32::NEG_INFINITY)), self.largest);
    }

    /// Takes in the visible positions of a block.
    #[inline(always)]
    pub(super) fn take<S: Simd>(
        &mut self,
        s: S,
        query: &[Vector],
        block: &Block<'_>,
        visible: Range<usize>,
        soft_cap: Option<f32>,
    ) {
        let mut weights = [[f32::NEG_INFINITY; LANES]; BLOCK / LANES];
        let halves = visible.start / LANES..visible.end.div_ceil(LANES);
        for (half, weights) in weights.iter_mut().enumerate() {
            if !halves.contains(&half) {
                continue;
            }
            let mut score = scores(s, query, block, half);
            if let Some(cap) = soft_cap {
                let bent = math::tanh(s, s.div(score, s.splat(cap)));
                score = s.mul(s.splat(cap), bent);
            }
            s.store(score, weights);
        }
        if visible != (0..BLOCK) {
            let weights = weights.as_flattened_mut();
            weights[..visible.start].fill(f32::NEG_INFINITY);
            weights[visible.end..].fill(f32::NEG_INFINITY);
        }
        let (low, high) = (s.load(&weights[0]), s.load(&weights[1]));
        let before = self.largest[0];
        let largest = before.max(s.largest(s.max(low, high)));
        if largest == f32::NEG_INFINITY {
            return;
        }
        let top = s.splat(largest);
        let (low, high) = (
            math::exp(s, s.sub(low, top)),
            math::exp(s, s.sub(high, top)),
        );
        s.store(low, &mut weights[0]);
        s.store(high, &mut weights[1]);
        let shrink = math::exp(s, s.sub(s.splat(before), top));
        let total = s.mul_add(s.load(self.total), shrink, low);
        s.store(s.add(total, high), self.total);
        s.store(top, self.largest);
        self.mix(s, block, &weights, visible, shrink);
    }

    /// sums = sums · shrink + Σ weight · value.
    #[inline(always)]
    fn mix<S: Simd>(
        &mut self,
        s: S,
        block: &Block<'_>,
        weights: &[Vector; BLOCK / LANES],
        visible: Range<usize>,
        shrink: S::F,
    ) {
        let weights = &weights.as_flattened()[..BLOCK];
        let (fours, ones) = self.sums.as_chunks_mut::<TOGETHER>();
        let (four_values, one_values) = block.values.as_chunks::<TOGETHER>();
        for (sums, values) in fours.iter_mut().zip(four_values) {
            mix_chunks(s, sums, values, weights, visible.clone(), shrink);
        }
        for (sum, values) in ones.iter_mut().zip(one_values) {
            let (sums, values) = (std::array::from_mut(sum), std::array::from_ref(values));
            mix_chunks(s, sums, values, weights, visible.clone(), shrink);
        }
    }

    /// Adds what a span of later positions came to.
    #[inline(always)]
    pub(super) fn add<S: Simd>(&mut self, s: S, other: &State<'_>) {
        let (mine, theirs) = (self.largest[0], other.largest[0]);
        let largest = mine.max(theirs);
        if largest == f32::NEG_INFINITY {
            return;
        }
        let top = s.splat(largest);
        let keep = math::exp(s, s.sub(s.splat(mine), top));
        let take = math::exp(s, s.sub(s.splat(theirs), top));
        let total = s.mul(s.load(self.total), keep);
        s.store(s.mul_add(s.load(other.total), take, total), self.total);
        s.store(top, self.largest);
        for (sum, other) in self.sums.iter_mut().zip(other.sums.iter()) {
            let kept = s.mul(s.load(sum), keep);
            s.store(s.mul_add(s.load(other), take, kept), sum);
        }
    }

    /// The weighted mean.
    #[inline(always)]
    pub(super) fn finish<S: Simd>(&self, s: S, out: &mut [f32]) {
        let total = s.sum(s.load(self.total));
        for (out, &sum) in out.iter_mut().zip(self.sums.as_flattened()) {
            *out = sum / total;
        }
    }
}

/// Products of a query with sixteen keys.
#[inline(always)]
fn scores<S: Simd>(s: S, query: &[Vector], block: &Block<'_>, half: usize) -> S::F {
    let mut products = [s.splat(0.0); LANES];
    for (query, keys) in query.iter().zip(block.keys.iter()) {
        let query = s.load(query);
        let keys = &keys.as_chunks::<LANES>().0[half];
        for (product, key) in products.iter_mut().zip(keys) {
            *product = s.mul_add(query, s.load(key), *product);
        }
    }
    s.sums(products)
}

#[inline(always)]
fn mix_chunks<S: Simd, const C: usize>(
    s: S,
    sums: &mut [Vector; C],
    values: &[[Vector; BLOCK]; C],
    weights: &[f32],
    visible: Range<usize>,
    shrink: S::F,
) {
    let mut mixed = [shrink; C];
    for (mixed, sum) in mixed.iter_mut().zip(sums.iter()) {
        *mixed = s.mul(s.load(sum), *mixed);
    }
    for place in visible {
        let weight = s.splat(weights[place]);
        for (mixed, values) in mixed.iter_mut().zip(values) {
            *mixed = s.mul_add(weight, s.load(&values[place]), *mixed);
        }
    }
    for (mixed, sum) in mixed.iter().zip(sums) {
        s.store(*mixed, sum);
    }
}
