//! Weights of plain floats: kept in their type, widened in registers.

use std::marker::PhantomData;

use half::{bf16, f16};
use tensor::{Buffer, DType};

use super::Shared;
use super::matmul::TileKernel;
use crate::memory::Store;
use crate::simd::{LANES, Simd};
use crate::thread_pool::ThreadPool;

/// A matrix in tiles of sixteen rows, column by column.
pub(crate) struct PlainTiles {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) dtype: DType,
    pub(super) data: Buffer,
}

impl PlainTiles {
    /// Brings rows of little-endian elements into tiles; rows past the end are zeros.
    pub(crate) fn pack(
        (rows, cols): (usize, usize),
        dtype: DType,
        from: &[u8],
        pool: &ThreadPool,
        store: &mut Store,
    ) -> Self {
        let (tiles, size) = (rows.div_ceil(LANES), dtype.size());
        let tile_bytes = cols * LANES * size;
        let mut data = store.take(tiles * tile_bytes);
        let target = Shared(data.view_mut(0, tiles, tile_bytes, DType::U8).address());
        pool.split(tiles, 1, |range| {
            for tile in range {
                // SAFETY: every tile is written by one task, inside the buffer.
                let bytes = unsafe {
                    std::slice::from_raw_parts_mut(target.get().add(tile * tile_bytes), tile_bytes)
                };
                for lane in 0..LANES.min(rows - tile * LANES) {
                    let row = (tile * LANES + lane) * cols * size;
                    let elements = from[row..row + cols * size].chunks_exact(size);
                    for (k, element) in elements.enumerate() {
                        bytes[(k * LANES + lane) * size..][..size].copy_from_slice(element);
                    }
                }
            }
        });
        Self {
            rows,
            cols,
            dtype,
            data,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.data.bytes()
    }

    /// One row as plain numbers.
    pub(crate) fn row(&self, row: usize, out: &mut [f32]) {
        let tiles = self.rows.div_ceil(LANES);
        let tile = self
            .data
            .view(0, tiles, self.cols * LANES, self.dtype)
            .row_range(row / LANES..row / LANES + 1);
        for (k, out) in out.iter_mut().enumerate() {
            *out = tile.value(0, k * LANES + row % LANES);
        }
    }
}

/// An element type that widens to sixteen floats.
pub(super) trait Widen: Sized {
    fn load<S: Simd>(s: S, from: &[Self; LANES]) -> S::F;
}

impl Widen for f32 {
    #[inline(always)]
    fn load<S: Simd>(s: S, from: &[Self; LANES]) -> S::F {
        s.load(from)
    }
}

impl Widen for f16 {
    #[inline(always)]
    fn load<S: Simd>(s: S, from: &[Self; LANES]) -> S::F {
        s.load_f16(from)
    }
}

impl Widen for bf16 {
    #[inline(always)]
    fn load<S: Simd>(s: S, from: &[Self; LANES]) -> S::F {
        s.load_bf16(from)
    }
}

/// The GEMM with elements of type `E`.
pub(super) struct Plain<'a, E> {
    weight: &'a PlainTiles,
    element: PhantomData<fn() -> E>,
}

impl<'a, E> Plain<'a, E> {
    pub(super) fn new(weight: &'a PlainTiles) -> Self {
        Self {
            weight,
            element: PhantomData,
        }
    }
}

impl<E: Widen> TileKernel for Plain<'_, E> {
    #[inline(always)]
    unsafe fn tile<S: Simd, const R: usize>(&self, s: S, tile: usize, x: *const u8) -> [S::F; R] {
        let cols = self.weight.cols;
        let columns: *const [E; LANES] = self.weight.data.address().cast();
        let columns = columns.wrapping_add(tile * cols);
        let x: *const f32 = x.cast();
        let mut sums = [s.splat(0.0); R];
        for k in 0..cols {
            // SAFETY: the tile has `cols` columns of sixteen elements.
            let value = E::load(s, unsafe { &*columns.add(k) });
            for (r, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the block has `R` floats a column.
                *sum = s.mul_add(value, s.splat(unsafe { *x.add(k * R + r) }), *sum);
            }
        }
        sums
    }
}
