//! Quantised weights times f32 activations: every weight is widened to the exact number it stands for.

use super::affine::{AffineTiles, Minimum};
use super::matmul::TileKernel;
use super::quants;
use crate::simd::{LANES, Simd};

/// Bits of the quants and size of the groups are fixed at compile time.
pub(super) struct Exact<'a, const BITS: usize, const GROUP: usize>(pub(super) &'a AffineTiles);

impl<const BITS: usize, const GROUP: usize> TileKernel for Exact<'_, BITS, GROUP> {
    #[inline(always)]
    unsafe fn tile<S: Simd, const R: usize>(&self, s: S, tile: usize, x: *const u8) -> [S::F; R] {
        let (weight, half) = (self.0, GROUP / 8);
        let groups = weight.groups();
        let mut group_start = weight.tile(tile);
        let mut x: *const f32 = x.cast();
        let mut sums = [s.splat(0.0); R];
        for group in tile * groups..(tile + 1) * groups {
            // SAFETY: the tile has `groups` groups.
            let scale = unsafe { weight.scales.load(s, group) };
            let minimum = match &weight.minimum {
                Minimum::Zero(zero) => s.mul(scale, s.splat(-(*zero as f32))),
                // SAFETY: as above.
                Minimum::Given(minimums) => unsafe { minimums.load(s, group) },
            };
            for vector in 0..GROUP / 4 {
                // SAFETY: as above.
                let (low, high) =
                    unsafe { quants::pair::<S, BITS, GROUP>(s, group_start, vector % half) };
                let bytes = if vector < half { low } else { high };
                for byte in 0..4 {
                    let quant = s.and(s.shift_right(bytes, 8 * byte), s.splat_int(0xFF));
                    let value = s.mul_add(s.float(quant), scale, minimum);
                    for (r, sum) in sums.iter_mut().enumerate() {
                        // SAFETY: the block has `R` floats a column.
                        *sum = s.mul_add(value, s.splat(unsafe { *x.add(r) }), *sum);
                    }
                    x = x.wrapping_add(R);
                }
            }
            group_start = group_start.wrapping_add(GROUP * LANES * BITS / 8);
        }
        sums
    }
}
