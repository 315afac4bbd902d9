//! Weights of eight-bit floats: kept as bytes, widened in registers to exactly the numbers they stand for.

use ops::{Float8Rows, float8};
use tensor::{Buffer, DType};

use super::Shared;
use super::matmul::TileKernel;
use crate::memory::Store;
use crate::simd::{LANES, Simd};
use crate::thread_pool::ThreadPool;

/// Columns whose codes share a word.
const WORD: usize = 4;
/// What a code's bits, moved to where a float has its exponent and mantissa, must be multiplied with: 2¹²⁰.
const EXPONENT: f32 = f32::from_bits((127 + 120) << 23);

/// A matrix in tiles of sixteen rows: words of four columns, and scales a group of columns.
pub(crate) struct Float8Tiles {
    rows: usize,
    cols: usize,
    /// Columns that share a scale.
    group: usize,
    /// `[tiles, words, LANES]` words.
    codes: Buffer,
    /// `[tiles, groups, LANES]` floats.
    scales: Buffer,
}

impl Float8Tiles {
    /// True when groups of this many columns are made of whole words; zero is a whole row.
    pub(crate) fn takes(group: u32) -> bool {
        (group as usize).is_multiple_of(WORD)
    }

    /// Brings rows into tiles; rows past the end are zeros.
    pub(crate) fn pack(
        (rows, cols): (usize, usize),
        from: &Float8Rows<'_>,
        pool: &ThreadPool,
        store: &mut Store,
    ) -> Self {
        let (tiles, words) = (rows.div_ceil(LANES), cols.div_ceil(WORD));
        let groups = from.groups(cols);
        let mut codes = store.take(tiles * words * LANES * WORD);
        let mut scales = store.take(tiles * groups * LANES * size_of::<f32>());
        let tile_bytes = words * LANES * WORD;
        let code_target = Shared(codes.view_mut(0, tiles, tile_bytes, DType::U8).address());
        let scale_target = Shared(
            scales
                .view_mut(0, tiles, groups * LANES, DType::F32)
                .address(),
        );
        pool.split(tiles, 1, |range| {
            for tile in range {
                // SAFETY: every tile is written by one task, inside both buffers, which are aligned to vectors.
                let (codes, scales) = unsafe {
                    let codes = code_target.get().add(tile * tile_bytes);
                    let scales: *mut f32 = scale_target.get().cast();
                    (
                        std::slice::from_raw_parts_mut(codes, tile_bytes),
                        std::slice::from_raw_parts_mut(
                            scales.add(tile * groups * LANES),
                            groups * LANES,
                        ),
                    )
                };
                for lane in 0..LANES.min(rows - tile * LANES) {
                    let row = tile * LANES + lane;
                    for (k, code) in from.codes[row * cols..(row + 1) * cols].iter().enumerate() {
                        codes[(k / WORD * LANES + lane) * WORD + k % WORD] = *code;
                    }
                    for (group, scale) in from.scales_of(row, cols).iter().enumerate() {
                        scales[group * LANES + lane] = *scale;
                    }
                }
            }
        });
        Self {
            rows,
            cols,
            group: from.block[1].min(cols),
            codes,
            scales,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.codes.bytes() + self.scales.bytes()
    }

    fn groups(&self) -> usize {
        self.cols.div_ceil(self.group)
    }

    /// One row as plain numbers.
    pub(crate) fn row(&self, row: usize, out: &mut [f32]) {
        let (tiles, words) = (self.rows.div_ceil(LANES), self.cols.div_ceil(WORD));
        let (tile, lane) = (row / LANES, row % LANES);
        let codes = self.codes.view(0, tiles, words * LANES * WORD, DType::U8);
        let codes = codes.row::<u8>(tile);
        let scales = self
            .scales
            .view(0, tiles, self.groups() * LANES, DType::F32);
        let scales = scales.row::<f32>(tile);
        for (k, out) in out.iter_mut().enumerate() {
            let code = codes[(k / WORD * LANES + lane) * WORD + k % WORD];
            *out = float8::decode(code) * scales[k / self.group * LANES + lane];
        }
    }
}

/// The GEMM: sums of a group are scaled as a whole.
pub(super) struct Float8<'a>(pub(super) &'a Float8Tiles);

impl TileKernel for Float8<'_> {
    #[inline(always)]
    unsafe fn tile<S: Simd, const R: usize>(&self, s: S, tile: usize, x: *const u8) -> [S::F; R] {
        let weight = self.0;
        let groups = weight.groups();
        let words: *const [i32; LANES] = weight.codes.address().cast();
        let words = words.wrapping_add(tile * weight.cols.div_ceil(WORD));
        let scales: *const [f32; LANES] = weight.scales.address().cast();
        let scales = scales.wrapping_add(tile * groups);
        let x: *const f32 = x.cast();
        let (signs, magnitudes) = (s.splat_int(i32::MIN), s.splat_int(0x07f0_0000));
        let mut sums = [s.splat(0.0); R];
        for group in 0..groups {
            let mut part = [s.splat(0.0); R];
            let end = ((group + 1) * weight.group).min(weight.cols);
            let mut k = group * weight.group;
            while k < end {
                // SAFETY: the tile has a word for every four columns.
                let word = s.load_int(unsafe { &*words.add(k / WORD) });
                for byte in 0..WORD.min(end - k) {
                    let top = s.shift_left(word, 24 - 8 * byte as u32);
                    let bits = s.xor(s.and(top, signs), s.and(s.shift_right(top, 4), magnitudes));
                    let value = s.mul(s.float_bits(bits), s.splat(EXPONENT));
                    for (r, part) in part.iter_mut().enumerate() {
                        // SAFETY: the block has `R` floats a column.
                        let x = s.splat(unsafe { *x.add((k + byte) * R + r) });
                        *part = s.mul_add(value, x, *part);
                    }
                }
                k += WORD;
            }
            // SAFETY: the tile has a vector of scales a group.
            let scale = s.load(unsafe { &*scales.add(group) });
            for (sum, part) in sums.iter_mut().zip(part) {
                *sum = s.mul_add(part, scale, *sum);
            }
        }
        sums
    }
}
