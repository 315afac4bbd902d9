//! The running softmax of one pair of token and query head.

use std::ops::Range;

use super::Vector;
use super::block::{BLOCK, Block};
use crate::kernels::store_kv::Stored;
use crate::simd::{LANES, Simd, math};

/// Chunks that are summed together while the weights of a block are walked.
const TOGETHER: usize = 4;
/// Vectors of scores in a block.
const HALVES: usize = BLOCK / LANES;

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

/// Takes the visible positions of a block into `P` neighbouring states at once, so that they share its keys and values.
#[inline(always)]
pub(super) fn take<S: Simd, E: Stored, const P: usize>(
    s: S,
    queries: &[Vector],
    states: &mut [Vector],
    block: &Block<E>,
    visible: Range<usize>,
    soft_cap: Option<f32>,
) {
    let mut weights = [[[f32::NEG_INFINITY; LANES]; HALVES]; P];
    for half in 0..HALVES {
        if half * LANES < visible.end && visible.start < (half + 1) * LANES {
            let scores = scores::<S, E, P>(s, queries, block, half);
            for (weights, mut score) in weights.iter_mut().zip(scores) {
                if let Some(cap) = soft_cap {
                    let bent = math::tanh(s, s.div(score, s.splat(cap)));
                    score = s.mul(s.splat(cap), bent);
                }
                s.store(score, &mut weights[half]);
            }
        }
    }
    let mut shrink = [s.splat(1.0); P];
    let record = states.len() / P;
    for (p, weights) in weights.iter_mut().enumerate() {
        if visible != (0..BLOCK) {
            let weights = weights.as_flattened_mut();
            weights[..visible.start].fill(f32::NEG_INFINITY);
            weights[visible.end..].fill(f32::NEG_INFINITY);
        }
        let mut state = State::new(&mut states[p * record..(p + 1) * record]);
        shrink[p] = weigh(s, &mut state, weights);
    }
    let chunks = queries.len() / P;
    let mut chunk = 0;
    while chunk + TOGETHER <= chunks {
        mix::<S, E, P, TOGETHER>(s, states, block, chunk, &weights, visible.clone(), shrink);
        chunk += TOGETHER;
    }
    while chunk < chunks {
        mix::<S, E, P, 1>(s, states, block, chunk, &weights, visible.clone(), shrink);
        chunk += 1;
    }
}

/// Dot products of `P` queries with sixteen keys.
#[inline(always)]
fn scores<S: Simd, E: Stored, const P: usize>(
    s: S,
    queries: &[Vector],
    block: &Block<E>,
    half: usize,
) -> [S::F; P] {
    let mut products = [[s.splat(0.0); LANES]; P];
    // As many keys at a time as there are registers for.
    let mut first = 0;
    while first < LANES {
        if S::ROWS == 8 {
            keys::<S, E, P, 8>(s, queries, block, half * LANES, first, &mut products);
            first += 8;
        } else {
            keys::<S, E, P, 4>(s, queries, block, half * LANES, first, &mut products);
            first += 4;
        }
    }
    let mut scores = [s.splat(0.0); P];
    for (score, products) in scores.iter_mut().zip(products) {
        *score = s.sums(products);
    }
    scores
}

/// Lane by lane products of `P` queries with the `K` keys from `first` on.
#[inline(always)]
fn keys<S: Simd, E: Stored, const P: usize, const K: usize>(
    s: S,
    queries: &[Vector],
    block: &Block<E>,
    start: usize,
    first: usize,
    products: &mut [[S::F; LANES]; P],
) {
    let chunks = queries.len() / P;
    let mut sums = [[s.splat(0.0); K]; P];
    for chunk in 0..chunks {
        let mut query = [s.splat(0.0); P];
        for (p, query) in query.iter_mut().enumerate() {
            *query = s.load(&queries[p * chunks + chunk]);
        }
        for k in 0..K {
            // SAFETY: a head has this chunk.
            let key = E::get(s, unsafe { block.key(start + first + k, chunk) });
            for (sums, query) in sums.iter_mut().zip(query) {
                sums[k] = s.mul_add(query, key, sums[k]);
            }
        }
    }
    for (products, sums) in products.iter_mut().zip(sums) {
        products[first..first + K].copy_from_slice(&sums);
    }
}

/// Turns scores into weights relative to the largest so far; gives the factor of everything before them.
#[inline(always)]
fn weigh<S: Simd>(s: S, state: &mut State<'_>, weights: &mut [Vector; HALVES]) -> S::F {
    let (low, high) = (s.load(&weights[0]), s.load(&weights[1]));
    let before = state.largest[0];
    let largest = before.max(s.largest(s.max(low, high)));
    // Nothing but forbidden scores: any number will do to subtract.
    let top = s.splat(if largest == f32::NEG_INFINITY {
        0.0
    } else {
        largest
    });
    let (low, high) = (
        math::exp(s, s.sub(low, top)),
        math::exp(s, s.sub(high, top)),
    );
    s.store(low, &mut weights[0]);
    s.store(high, &mut weights[1]);
    // Most blocks do not raise the largest: e⁰ is exactly one.
    let shrink = if largest > before {
        math::exp(s, s.sub(s.splat(before), top))
    } else {
        s.splat(1.0)
    };
    let total = s.mul_add(s.load(state.total), shrink, low);
    s.store(s.add(total, high), state.total);
    s.store(s.splat(largest), state.largest);
    shrink
}

/// sums = sums · shrink + Σ weight · value, for `C` chunks of `P` states.
#[inline(always)]
fn mix<S: Simd, E: Stored, const P: usize, const C: usize>(
    s: S,
    states: &mut [Vector],
    block: &Block<E>,
    chunk: usize,
    weights: &[[Vector; HALVES]; P],
    visible: Range<usize>,
    shrink: [S::F; P],
) {
    let record = states.len() / P;
    let mut mixed = [[s.splat(0.0); C]; P];
    for (p, mixed) in mixed.iter_mut().enumerate() {
        for (c, mixed) in mixed.iter_mut().enumerate() {
            *mixed = s.mul(s.load(&states[p * record + chunk + c]), shrink[p]);
        }
    }
    for place in visible {
        let mut value = [s.splat(0.0); C];
        for (c, value) in value.iter_mut().enumerate() {
            // SAFETY: a head has this chunk.
            *value = E::get(s, unsafe { block.value(place, chunk + c) });
        }
        for (mixed, weights) in mixed.iter_mut().zip(weights) {
            let weight = s.splat(weights.as_flattened()[place]);
            for (mixed, value) in mixed.iter_mut().zip(value) {
                *mixed = s.mul_add(weight, value, *mixed);
            }
        }
    }
    for (p, mixed) in mixed.iter().enumerate() {
        for (c, mixed) in mixed.iter().enumerate() {
            s.store(*mixed, &mut states[p * record + chunk + c]);
        }
    }
}
