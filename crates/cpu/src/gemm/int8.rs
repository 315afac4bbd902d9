//! Quantised weights times activations rounded to one or two planes of bytes, with integer dot products.

use super::affine::{AffineTiles, Minimum};
use super::matmul::TileKernel;
use super::quants;
use crate::simd::{LANES, Simd};

/// Bits of the quants, size of the groups and planes of the activations are fixed at compile time.
pub(super) struct Int8<'a, const BITS: usize, const GROUP: usize, const PLANES: usize>(
    pub(super) &'a AffineTiles,
);

impl<const BITS: usize, const GROUP: usize, const PLANES: usize> TileKernel
    for Int8<'_, BITS, GROUP, PLANES>
{
    #[inline(always)]
    unsafe fn tile<S: Simd, const R: usize>(&self, s: S, tile: usize, x: *const u8) -> [S::F; R] {
        let weight = self.0;
        let groups = weight.groups();
        let mut quants = weight.tile(tile);
        let mut x = x;
        let mut sums = [s.splat(0.0); R];
        for group in tile * groups..(tile + 1) * groups {
            // SAFETY: the tile has `groups` groups of quants, scales and minimums; the block has as many of `R` rows.
            unsafe {
                let dots = dots::<S, R, BITS, GROUP, PLANES>(s, quants, x);
                let scale = weight.scales.load(s, group);
                let scales = x.add(R * GROUP * PLANES).cast::<f32>();
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
                        let mut minimum = minimums.load(s, group);
                        if BITS == 8 && S::CENTRE != 0 {
                            minimum = s.mul_add(scale, s.splat(S::CENTRE as f32), minimum);
                        }
                        for r in 0..R {
                            let scale = s.mul(scale, s.splat(scales.add(r).read_unaligned()));
                            sums[r] = s.mul_add(s.float(dots[r]), scale, sums[r]);
                            let sum = s.splat(extras.add(r).read_unaligned());
                            sums[r] = s.mul_add(minimum, sum, sums[r]);
                        }
                    }
                }
            }
            quants = quants.wrapping_add(GROUP * LANES * BITS / 8);
            x = x.wrapping_add(R * (GROUP * PLANES + 8));
        }
        sums
    }
}

/// Integer products of one group with `R` rows: Σ quant × (255 × first plane + second plane), or of the only plane.
///
/// # Safety
/// `group` must point to a group of a tile, `x` to the planes of that group of `R` rows.
#[inline(always)]
unsafe fn dots<
    S: Simd,
    const R: usize,
    const BITS: usize,
    const GROUP: usize,
    const PLANES: usize,
>(
    s: S,
    group: *const u8,
    x: *const u8,
) -> [S::I; R] {
    let mut planes = [[s.splat_int(0); R]; PLANES];
    // SAFETY: the caller's promise: GROUP bytes a row and plane.
    let row = |plane: usize, r: usize, vector: usize| unsafe {
        x.add((plane * R + r) * GROUP + vector * 4)
            .cast::<i32>()
            .read_unaligned()
    };
    let half = GROUP / 8;
    if BITS == 8 {
        // One after the other, as memory likes it.
        for vector in 0..GROUP / 4 {
            // SAFETY: the caller's promise.
            let bytes = s.load_int(unsafe { &*group.cast::<[i32; LANES]>().add(vector) });
            for (plane, dots) in planes.iter_mut().enumerate() {
                for (r, dot) in dots.iter_mut().enumerate() {
                    *dot = s.dot8(*dot, bytes, row(plane, r, vector));
                }
            }
        }
    } else {
        for vector in 0..half {
            // SAFETY: the caller's promise.
            let (low, high) = unsafe { quants::pair::<S, BITS, GROUP>(s, group, vector) };
            for (plane, dots) in planes.iter_mut().enumerate() {
                for (r, dot) in dots.iter_mut().enumerate() {
                    *dot = dot_of::<S, BITS>(s, *dot, low, row(plane, r, vector));
                }
                for (r, dot) in dots.iter_mut().enumerate() {
                    *dot = dot_of::<S, BITS>(s, *dot, high, row(plane, r, vector + half));
                }
            }
        }
    }
    if BITS == 4 {
        for dot in planes.as_flattened_mut() {
            *dot = s.end_dot4(*dot);
        }
    }
    let mut dots = planes[0];
    if PLANES == 2 {
        for r in 0..R {
            let first = s.sub_int(s.shift_left(dots[r], 8), dots[r]);
            dots[r] = s.add_int(first, planes[1][r]);
        }
    }
    dots
}

/// Products of bytes of four to seven bits.
#[inline(always)]
fn dot_of<S: Simd, const BITS: usize>(s: S, sums: S::I, bytes: S::I, row: i32) -> S::I {
    if BITS == 4 {
        s.dot4(sums, bytes, row)
    } else {
        s.dot7(sums, bytes, row)
    }
}
