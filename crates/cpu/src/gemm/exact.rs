//! Quantised weights times f32 activations: every weight is widened to the exact number it stands for.

use super::affine::{AffineTiles, Minimum};
use super::product::TileKernel;
use crate::simd::{LANES, Simd};

/// See the module.
pub(super) struct Exact<'a, const BITS: usize>(pub(super) &'a AffineTiles);

impl<const BITS: usize> TileKernel for Exact<'_, BITS> {
    #[inline(always)]
    unsafe fn tile<S: Simd, const R: usize>(&self, s: S, tile: usize, x: *const u8) -> [S::F; R] {
        let weight = self.0;
        let groups = weight.cols / weight.group;
        let (half, group_bytes) = (weight.group / 8, weight.group * LANES * BITS / 8);
        let mut quants = weight
            .quants
            .address()
            .cast_const()
            .wrapping_add(tile * groups * group_bytes);
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
            for vector in 0..weight.group / 4 {
                let packed: *const [i32; LANES] = quants.cast();
                let bytes = if BITS == 4 {
                    // SAFETY: a group has `half` vectors of nibbles.
                    let packed = s.load_int(unsafe { &*packed.add(vector % half) });
                    let shift = 4 * (vector / half) as u32;
                    s.and(s.shift_right(packed, shift), s.splat_int(0x0F0F_0F0F))
                } else {
                    // SAFETY: a group has group / 4 vectors of bytes.
                    s.load_int(unsafe { &*packed.add(vector) })
                };
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
            quants = quants.wrapping_add(group_bytes);
        }
        sums
    }
}
