//! Rows of activations in blocks, laid out as kernels read them.

use tensor::{Buffer, View};

use super::Shared;
use crate::simd::{LANES, Level, Simd, Vectorised};
use crate::thread_pool::ThreadPool;

/// Blocks of rows: all of one height, except the last.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    pub(super) rows: usize,
    pub(super) height: usize,
    /// Bytes of one row in a block.
    pub(super) row_bytes: usize,
    address: Shared<u8>,
}

impl Blocks {
    /// Number of blocks.
    pub(super) fn count(&self) -> usize {
        self.rows.div_ceil(self.height)
    }

    /// Rows of a block.
    #[inline(always)]
    pub(super) fn height_of(&self, block: usize) -> usize {
        self.height.min(self.rows - block * self.height)
    }

    /// Where a block starts.
    #[inline(always)]
    pub(super) fn address(&self, block: usize) -> *const u8 {
        self.start(block).cast_const()
    }

    #[inline(always)]
    fn start(&self, block: usize) -> *mut u8 {
        self.address
            .get()
            .wrapping_add(block * self.height * self.row_bytes)
    }
}

/// Memory for blocks, kept from op to op.
pub(crate) struct BlockMemory(Buffer);

impl Default for BlockMemory {
    fn default() -> Self {
        Self(Buffer::host(1 << 20))
    }
}

impl BlockMemory {
    fn blocks(&mut self, rows: usize, height: usize, row_bytes: usize) -> Blocks {
        let bytes = rows * row_bytes;
        if self.0.bytes() < bytes {
            self.0 = Buffer::host(bytes.next_power_of_two());
        }
        Blocks {
            rows,
            height,
            row_bytes,
            address: Shared(self.0.address()),
        }
    }

    /// Rows as f32, column by column: `[column][row of the block]`.
    pub(super) fn floats(&mut self, x: View<'_>, level: Level, pool: &ThreadPool) -> Blocks {
        let blocks = self.blocks(x.rows(), level.rows(), x.cols() * 4);
        pool.split(blocks.count(), 4, |range| {
            for block in range {
                let height = blocks.height_of(block);
                for row in 0..height {
                    let values = x.row::<f32>(block * blocks.height + row);
                    let to: *mut f32 = blocks.start(block).cast();
                    for (k, &value) in values.iter().enumerate() {
                        // SAFETY: inside the block, which this task alone writes.
                        unsafe { to.add(k * height + row).write(value) };
                    }
                }
            }
        });
        blocks
    }

    /// Rows rounded to planes of bytes by groups: for each group the planes of every row, their scales, and their sums.
    pub(super) fn bytes<const PLANES: usize>(
        &mut self,
        x: View<'_>,
        group: usize,
        sum: Sum,
        level: Level,
        pool: &ThreadPool,
    ) -> Blocks {
        let row_bytes = x.cols() / group * (group * PLANES + 8);
        let blocks = self.blocks(x.rows(), level.rows(), row_bytes);
        pool.split(blocks.count(), 2, |range| {
            for block in range {
                level.run(Quantise::<PLANES> {
                    x,
                    blocks,
                    block,
                    group,
                    sum,
                });
            }
        });
        blocks
    }
}

/// What accompanies the integers of a group beside their scale.
#[derive(Clone, Copy)]
pub(super) enum Sum {
    /// The i32 `zero × Σ integers`.
    Times(i32),
    /// The f32 `scale × Σ integers`.
    Scaled,
}

/// Steps of the second plane in one of the first: odd, so that the rest fits a byte on either side.
const FINER: i32 = 255;

struct Quantise<'a, const PLANES: usize> {
    x: View<'a>,
    blocks: Blocks,
    block: usize,
    group: usize,
    sum: Sum,
}

impl<const PLANES: usize> Vectorised for Quantise<'_, PLANES> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let height = self.blocks.height_of(self.block);
        for row in 0..height {
            let values = self.x.row::<f32>(self.block * self.blocks.height + row);
            let mut group_start = self.blocks.start(self.block);
            for values in values.chunks_exact(self.group) {
                let (vectors, _) = values.as_chunks::<LANES>();
                let steps = if PLANES == 2 { 127 * FINER } else { 127 };
                let scale = largest(s, vectors) / steps as f32;
                let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
                let mut total = 0i32;
                for (index, vector) in vectors.iter().enumerate() {
                    let exact = s.round(s.mul(s.load(vector), s.splat(inverse)));
                    let mut ints = [0; LANES];
                    s.store_int(exact, &mut ints);
                    total += ints.iter().sum::<i32>();
                    let to = group_start.wrapping_add(row * self.group + index * LANES);
                    if PLANES == 2 {
                        let coarse = s.round(s.mul(s.float(exact), s.splat(1.0 / FINER as f32)));
                        let covered = s.sub_int(s.shift_left(coarse, 8), coarse);
                        let mut rest = [0; LANES];
                        s.store_int(s.sub_int(exact, covered), &mut rest);
                        s.store_int(coarse, &mut ints);
                        // SAFETY: inside the block, which this task alone writes.
                        unsafe { write_bytes(rest, to.add(height * self.group)) };
                    }
                    // SAFETY: as above.
                    unsafe { write_bytes(ints, to) };
                }
                let sum = match self.sum {
                    Sum::Times(zero) => (zero * total).cast_unsigned(),
                    Sum::Scaled => (scale * total as f32).to_bits(),
                };
                let scales = group_start
                    .wrapping_add(height * self.group * PLANES)
                    .cast::<u32>();
                // SAFETY: as above.
                unsafe {
                    scales.add(row).write_unaligned(scale.to_bits());
                    scales.add(height + row).write_unaligned(sum);
                }
                group_start = group_start.wrapping_add(height * (self.group * PLANES + 8));
            }
        }
    }
}

/// Integers that fit a byte, as bytes.
///
/// # Safety
/// `to` must have room for them.
#[inline(always)]
unsafe fn write_bytes(ints: [i32; LANES], to: *mut u8) {
    let bytes: [i8; LANES] = std::array::from_fn(|lane| ints[lane] as i8);
    // SAFETY: the caller's promise.
    unsafe { to.cast::<[i8; LANES]>().write_unaligned(bytes) };
}

/// The largest size of a value.
#[inline(always)]
fn largest<S: Simd>(s: S, vectors: &[[f32; LANES]]) -> f32 {
    let sign = s.splat_int(i32::MAX);
    let mut largest = s.splat(0.0);
    for vector in vectors {
        let size = s.float_bits(s.and(s.bits(s.load(vector)), sign));
        largest = s.max(size, largest);
    }
    s.largest(largest)
}
