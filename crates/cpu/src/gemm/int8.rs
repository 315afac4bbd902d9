//! Quantised weights times activations rounded to bytes, with integer dot products.

use super::affine::{AffineTiles, Minimum};
use super::product::TileKernel;
use crate::simd::{LANES, Simd};

/// Bits of the quants and size of the groups are fixed at compile time.
pub(super) struct Int8<'a, const BITS: usize, const GROUP: usize>(pub(super) &'a AffineTiles);

impl<const BITS: usize, const GROUP: usize> TileKernel for Int8<'_, BITS, GROUP> {
    #[inline(always)]
    unsafe fn tile<S: Simd, const R: usize>(&self, s: S, tile: usize, x: *const u8) -> [S::F; R] {
        let weight = self.0;
        let groups = weight.cols / GROUP;
        let group_bytes = GROUP * LANES * BITS / 8;
        let mut quants = weight
            .quants
            .address()
            .cast_const()
            .wrapping_add(tile * groups * group_bytes);
        let mut x = x;
        let mut sums = [s.splat(0.0); R];
        for group in tile * groups..(tile + 1) * groups {
            // SAFETY: the tile has `groups` groups of quants, scales and minimums; the block has as many of `R` rows.
            unsafe {
                let dots = dots::<S, R, BITS, GROUP>(s, quants, x);
                let scale = weight.scales.load(s, group);
                let scales = x.add(R * GROUP).cast::<f32>();
                let extras = scales.add(R);
                match &weight.minimum {
                    Minimum::Zero(_) => {
                        for r in 0..R {
                            let offset = extras.add(r).cast::<i32>().read_unaligned();
                            let dot = s.sub_int(dots[r], s.splat_int(offset));
                            let scale = s.mul(scale, s.splat(scales.add(r).read_unaligned()));
                            sums[r] = s.mul_add(s.float(dot), scale, sums[r]);
                        }
                    }
                    Minimum::Given(minimums) => {
                        let minimum = minimums.load(s, group);
                        for r in 0..R {
                            let scale = s.mul(scale, s.splat(scales.add(r).read_unaligned()));
                            sums[r] = s.mul_add(s.float(dots[r]), scale, sums[r]);
                            let sum = s.splat(extras.add(r).read_unaligned());
                            sums[r] = s.mul_add(minimum, sum, sums[r]);
                        }
                    }
                }
            }
            quants = quants.wrapping_add(group_bytes);
            x = x.wrapping_add(R * (GROUP + 8));
        }
        sums
    }
}

/// Integer products of one group with `R` rows.
///
/// # Safety
/// `quants` must point to a group of a tile, `x` to the bytes of that group of `R` rows.
#[inline(always)]
unsafe fn dots<S: Simd, const R: usize, const BITS: usize, const GROUP: usize>(
    s: S,
    quants: *const u8,
    x: *const u8,
) -> [S::I; R] {
    let mut dots = [s.splat_int(0); R];
    let vectors: *const [i32; LANES] = quants.cast();
    // SAFETY: the caller's promise: GROUP / 4 vectors of bytes or half as many of nibbles, GROUP bytes a row.
    let row = |r: usize, vector: usize| unsafe {
        x.add(r * GROUP + vector * 4).cast::<i32>().read_unaligned()
    };
    if BITS == 4 {
        let half = GROUP / 8;
        let mask = s.splat_int(0x0F0F_0F0F);
        for vector in 0..half {
            // SAFETY: as above.
            let packed = s.load_int(unsafe { &*vectors.add(vector) });
            let low = s.and(packed, mask);
            let high = s.and(s.shift_right(packed, 4), mask);
            for r in 0..R {
                dots[r] = s.dot4(dots[r], low, row(r, vector));
            }
            for r in 0..R {
                dots[r] = s.dot4(dots[r], high, row(r, vector + half));
            }
        }
        for dot in &mut dots {
            *dot = s.end_dot4(*dot);
        }
    } else {
        for vector in 0..GROUP / 4 {
            // SAFETY: as above.
            let bytes = s.load_int(unsafe { &*vectors.add(vector) });
            for r in 0..R {
                dots[r] = s.dot8(dots[r], bytes, row(r, vector));
            }
        }
    }
    dots
}
