//! How the quants of a group lie in a tile: 4, 5, 6 or 8 bits each, in vectors of 64 bytes.
//!
//! A vector of bytes holds four consecutive columns of sixteen rows, row by row. Quants of fewer than eight bits are split:
//! their lower four bits lie two to a byte (the lower half of the byte is a vector of the group's first half, the upper
//! one of its second half), and the bits above lie in vectors of their own, those of several vectors in one byte.

use crate::simd::{LANES, Simd};

/// Four bytes of each of sixteen rows.
type Words = [u32; LANES];

/// Bits of a quant and quants of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) bits: usize,
    pub(super) group: usize,
}

impl Layout {
    /// The smallest layout with a kernel that holds quants up to `largest` in groups of this size.
    pub(super) fn of(largest: u8, group: usize) -> Self {
        let bits = match (group, largest) {
            (32, 0..16) => 4,
            (32, 16..32) => 5,
            (16, 0..64) => 6,
            _ => 8,
        };
        Self { bits, group }
    }

    /// Bytes of a group of a tile.
    pub(super) fn group_bytes(self) -> usize {
        self.group * LANES * self.bits / 8
    }

    /// Where the lower bits of a vector lie: which words, and how far up.
    fn lower(self, vector: usize) -> (usize, u32) {
        if self.bits == 8 {
            return (vector, 0);
        }
        let half = self.group / 8;
        (vector % half, 4 * (vector / half) as u32)
    }

    /// The same for its upper bits.
    fn upper(self, vector: usize) -> (usize, u32) {
        let (width, half) = (self.bits - 4, self.group / 8);
        let in_a_byte = 8 / width;
        (
            half + vector / in_a_byte,
            (width * (vector % in_a_byte)) as u32,
        )
    }

    /// Writes four quants of a row into a group of zeros.
    pub(super) fn put(self, group: &mut [Words], vector: usize, lane: usize, quants: [u8; 4]) {
        let word = u32::from_le_bytes(quants);
        let (words, shift) = self.lower(vector);
        if self.bits == 8 {
            group[words][lane] = word;
            return;
        }
        group[words][lane] |= (word & 0x0F0F_0F0F) << shift;
        if self.bits > 4 {
            let (words, shift) = self.upper(vector);
            group[words][lane] |= (word >> 4 & 0x0F0F_0F0F) << shift;
        }
    }

    /// Reads four quants of a row.
    pub(super) fn get(self, group: &[Words], vector: usize, lane: usize) -> [u8; 4] {
        let (words, shift) = self.lower(vector);
        let word = group[words][lane] >> shift;
        if self.bits == 8 {
            return word.to_le_bytes();
        }
        let mut word = word & 0x0F0F_0F0F;
        if self.bits > 4 {
            let (words, shift) = self.upper(vector);
            let mask = 0x0101_0101 * ((1 << (self.bits - 4)) - 1);
            word |= (group[words][lane] >> shift & mask) << 4;
        }
        word.to_le_bytes()
    }
}

/// Vectors `vector` and `vector + GROUP / 8` of a group as bytes, for `vector` below GROUP / 8.
///
/// # Safety
/// `group` must point to a group of this layout.
#[inline(always)]
pub(super) unsafe fn pair<S: Simd, const BITS: usize, const GROUP: usize>(
    s: S,
    group: *const u8,
    vector: usize,
) -> (S::I, S::I) {
    let half = GROUP / 8;
    let words: *const [i32; LANES] = group.cast();
    // SAFETY: the group has these vectors.
    let load = |index: usize| unsafe { &*words.add(index) };
    if BITS == 8 {
        return (s.load_int(load(vector)), s.load_int(load(vector + half)));
    }
    let packed = s.load_int(load(vector));
    let mask = s.splat_int(0x0F0F_0F0F);
    let mut low = s.and(packed, mask);
    let mut high = s.and(s.shift_right(packed, 4), mask);
    if BITS > 4 {
        let layout = Layout {
            bits: BITS,
            group: GROUP,
        };
        low = add_upper::<S, BITS>(s, low, words, layout.upper(vector));
        high = add_upper::<S, BITS>(s, high, words, layout.upper(vector + half));
    }
    (low, high)
}

/// Adds upper bits to lower ones.
#[inline(always)]
fn add_upper<S: Simd, const BITS: usize>(
    s: S,
    lower: S::I,
    words: *const [i32; LANES],
    (index, shift): (usize, u32),
) -> S::I {
    let mask = s.splat_int(0x1010_1010 * ((1 << (BITS - 4)) - 1));
    // SAFETY: the caller's group has this vector of upper bits.
    let upper = s.load_int(unsafe { &*words.add(index) });
    let upper = if shift <= 4 {
        s.shift_left(upper, 4 - shift)
    } else {
        s.shift_right(upper, shift - 4)
    };
    s.xor(lower, s.and(upper, mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quants_come_back_as_they_were_put() {
        for (largest, group, bits) in [
            (15, 32, 4),
            (31, 32, 5),
            (63, 16, 6),
            (255, 32, 8),
            (40, 32, 8),
            (64, 16, 8),
        ] {
            let layout = Layout::of(largest, group);
            assert_eq!(layout.bits, bits);
            let mut words = vec![[0; LANES]; layout.group_bytes() / 64];
            let quant = |vector: usize, lane: usize, i: usize| {
                ((vector * 67 + lane * 29 + i * 13) % (usize::from(largest) + 1)) as u8
            };
            let four = |vector, lane| [0, 1, 2, 3].map(|i| quant(vector, lane, i));
            for vector in 0..group / 4 {
                for lane in 0..LANES {
                    layout.put(&mut words, vector, lane, four(vector, lane));
                }
            }
            for vector in 0..group / 4 {
                for lane in 0..LANES {
                    assert_eq!(layout.get(&words, vector, lane), four(vector, lane));
                }
            }
        }
    }
}
