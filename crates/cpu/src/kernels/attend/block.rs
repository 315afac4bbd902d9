use super::Vector;
use crate::kernels::store_kv::Stored;
use crate::simd::{LANES, Simd};

/// Positions in a block; a block starts at a multiple of it.
pub(super) const BLOCK: usize = 2 * LANES;

/// Keys and values of one head at the positions of a block, widened to f32: `[chunk][position]`.
pub(super) struct Block<'a> {
    pub(super) keys: &'a mut [[Vector; BLOCK]],
    pub(super) values: &'a mut [[Vector; BLOCK]],
}

impl<'a> Block<'a> {
    /// Memory it needs.
    pub(super) fn vectors(chunks: usize) -> usize {
        2 * BLOCK * chunks
    }

    pub(super) fn new(memory: &'a mut [Vector], chunks: usize) -> Self {
        let (keys, values) = memory.as_chunks_mut().0.split_at_mut(chunks);
        Self { keys, values }
    }

    /// Brings in the key and value of one position; others keep what they had, which nobody may use.
    #[inline(always)]
    pub(super) fn fill<S: Simd, E: Stored>(&mut self, s: S, place: usize, key: &[E], value: &[E]) {
        widen(s, key, self.keys, place);
        widen(s, value, self.values, place);
    }
}

/// Widens a row; what is left of its last vector becomes zero.
#[inline(always)]
fn widen<S: Simd, E: Stored>(s: S, from: &[E], to: &mut [[Vector; BLOCK]], place: usize) {
    let (from, tail) = from.as_chunks::<LANES>();
    for (from, to) in from.iter().zip(to.iter_mut()) {
        s.store(E::get(s, from), &mut to[place]);
    }
    if !tail.is_empty() {
        let mut padded = [E::ZERO; LANES];
        padded[..tail.len()].copy_from_slice(tail);
        s.store(E::get(s, &padded), &mut to[from.len()][place]);
    }
}
