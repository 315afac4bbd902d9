use std::ops::Range;

use super::Vector;
use super::layer::Layer;
use crate::kernels::store_kv::Stored;
use crate::simd::{LANES, Simd};

/// Positions in a block; a block starts at a multiple of it.
pub(super) const BLOCK: usize = 2 * LANES;

/// Where keys and values of one head lie for the positions of a block.
///
/// Every address leads to whole vectors; invisible positions lead somewhere that may be read.
pub(super) struct Block<E> {
    keys: [*const E; BLOCK],
    values: [*const E; BLOCK],
}

/// Memory for a widened block.
pub(super) fn copy_vectors<E>(layer: &Layer<'_, E>) -> usize {
    2 * BLOCK * layer.chunks
}

impl<E: Stored> Block<E> {
    /// The positions where they are in the cache; heads must be whole vectors.
    #[inline(always)]
    pub(super) fn direct(
        layer: &Layer<'_, E>,
        slots: &[u32; BLOCK],
        places: Range<usize>,
        kv_head: usize,
    ) -> Self {
        let (key, value) = layer.at(slots[places.start], kv_head);
        let mut block = Self {
            keys: [key; BLOCK],
            values: [value; BLOCK],
        };
        for place in places {
            (block.keys[place], block.values[place]) = layer.at(slots[place], kv_head);
        }
        block
    }

    /// Sixteen numbers of the key at `place`.
    ///
    /// # Safety
    /// `chunk` must be below the chunks of a head, and the memory must live.
    #[inline(always)]
    pub(super) unsafe fn key(&self, place: usize, chunk: usize) -> &[E; LANES] {
        // SAFETY: every place leads to whole vectors.
        unsafe { &*self.keys[place].add(chunk * LANES).cast() }
    }

    /// Sixteen numbers of the value at `place`.
    ///
    /// # Safety
    /// As [`Self::key`].
    #[inline(always)]
    pub(super) unsafe fn value(&self, place: usize, chunk: usize) -> &[E; LANES] {
        // SAFETY: as above.
        unsafe { &*self.values[place].add(chunk * LANES).cast() }
    }
}

impl Block<f32> {
    /// The positions copied to `copies` as f32 and padded with zeros: once for all who see them.
    #[inline(always)]
    pub(super) fn widened<S: Simd, E: Stored>(
        s: S,
        layer: &Layer<'_, E>,
        slots: &[u32; BLOCK],
        places: Range<usize>,
        kv_head: usize,
        copies: &mut [Vector],
    ) -> Self {
        let (keys, values) = copies.split_at_mut(BLOCK * layer.chunks);
        let mut block = Self {
            keys: [keys.as_ptr().cast(); BLOCK],
            values: [values.as_ptr().cast(); BLOCK],
        };
        let keys = keys.chunks_exact_mut(layer.chunks);
        let rows = keys.zip(values.chunks_exact_mut(layer.chunks));
        for (place, (key, value)) in rows.enumerate() {
            block.keys[place] = key.as_ptr().cast();
            block.values[place] = value.as_ptr().cast();
            if places.contains(&place) {
                let (from_key, from_value) = layer.at(slots[place], kv_head);
                // SAFETY: a slot holds `dim` elements of each head, and the cache lives.
                unsafe {
                    let dim = layer.heads.dim;
                    widen(s, std::slice::from_raw_parts(from_key, dim), key);
                    widen(s, std::slice::from_raw_parts(from_value, dim), value);
                }
            }
        }
        block
    }
}

/// Widens a row; what is left of its last vector becomes zero.
#[inline(always)]
fn widen<S: Simd, E: Stored>(s: S, from: &[E], to: &mut [Vector]) {
    let (from, tail) = from.as_chunks::<LANES>();
    for (from, to) in from.iter().zip(to.iter_mut()) {
        s.store(E::get(s, from), to);
    }
    if !tail.is_empty() {
        let mut padded = [E::ZERO; LANES];
        padded[..tail.len()].copy_from_slice(tail);
        s.store(E::get(s, &padded), &mut to[from.len()]);
    }
}
