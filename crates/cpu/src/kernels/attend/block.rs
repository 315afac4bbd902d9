use std::ops::Range;

use crate::kernels::store_kv::Stored;
use crate::simd::{LANES, Simd};

/// Positions in a block; a block starts at a multiple of it.
pub(super) const BLOCK: usize = 2 * LANES;

/// Keys and values of one head at the positions of a block, widened to f32.
pub(super) struct Block<'a> {
    keys: &'a mut [f32],
    values: &'a mut [f32],
    padded: usize,
}

impl<'a> Block<'a> {
    /// Memory it needs.
    pub(super) fn floats(padded: usize) -> usize {
        2 * BLOCK * padded
    }

    pub(super) fn new(memory: &'a mut [f32], padded: usize) -> Self {
        let (keys, values) = memory.split_at_mut(BLOCK * padded);
        Self {
            keys,
            values,
            padded,
        }
    }

    /// Brings in the given positions, all of one block; others keep what they had, which nobody may use.
    #[inline(always)]
    pub(super) fn fill<'e, S: Simd, E: Stored>(
        &mut self,
        s: S,
        positions: Range<usize>,
        slot: impl Fn(usize) -> usize,
        row: impl Fn(usize) -> (&'e [E], &'e [E]),
    ) {
        for position in positions {
            let (key, value) = row(slot(position));
            let place = position % BLOCK * self.padded;
            widen(s, key, &mut self.keys[place..place + self.padded]);
            widen(s, value, &mut self.values[place..place + self.padded]);
        }
    }

    /// Sixteen lanes of the key at `place`.
    #[inline(always)]
    pub(super) fn key(&self, place: usize, chunk: usize) -> &[f32; LANES] {
        lanes(self.keys, place * self.padded + chunk * LANES)
    }

    /// Sixteen lanes of the value at `place`.
    #[inline(always)]
    pub(super) fn value(&self, place: usize, chunk: usize) -> &[f32; LANES] {
        lanes(self.values, place * self.padded + chunk * LANES)
    }
}

#[inline(always)]
pub(super) fn lanes(floats: &[f32], start: usize) -> &[f32; LANES] {
    floats[start..start + LANES]
        .first_chunk()
        .expect("a slice of sixteen floats")
}

#[inline(always)]
pub(super) fn lanes_mut(floats: &mut [f32], start: usize) -> &mut [f32; LANES] {
    floats[start..start + LANES]
        .first_chunk_mut()
        .expect("a slice of sixteen floats")
}

/// Widens a row; what is left of `to` becomes zero.
#[inline(always)]
fn widen<S: Simd, E: Stored>(s: S, from: &[E], to: &mut [f32]) {
    let (from, from_tail) = from.as_chunks::<LANES>();
    let (to, _) = to.as_chunks_mut::<LANES>();
    for (from, to) in from.iter().zip(to.iter_mut()) {
        s.store(E::get(s, from), to);
    }
    if let (Some(to), false) = (to.get_mut(from.len()), from_tail.is_empty()) {
        let mut tail = [E::ZERO; LANES];
        tail[..from_tail.len()].copy_from_slice(from_tail);
        s.store(E::get(s, &tail), to);
    }
}
