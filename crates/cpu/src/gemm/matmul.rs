//! out = x · weightᵀ + bias over tiles and blocks, shared by the thread pool.

use std::ops::Range;

use half::{bf16, f16};
use tensor::{DType, View, ViewMut};

use super::affine::{AffineTiles, Minimum};
use super::blocks::{BlockMemory, Blocks, Sum};
use super::exact::Exact;
use super::float8::Float8;
use super::int8::Int8;
use super::plain::Plain;
use super::{Packed, Shared};
use crate::device::Activations;
use crate::simd::{LANES, Level, Simd, Vectorised};
use crate::thread_pool::ThreadPool;

/// Blocks that a task takes through all its tiles before the next ones, so that they stay in the inner caches.
const PANEL: usize = 8;

/// Sixteen output features of `R` rows.
pub(super) trait TileKernel: Sync {
    /// The sums of each row.
    ///
    /// # Safety
    /// `tile` must be one of the weight's, `x` a block of exactly `R` rows prepared for this weight.
    unsafe fn tile<S: Simd, const R: usize>(&self, s: S, tile: usize, x: *const u8) -> [S::F; R];
}

/// A GEMM about to be run.
pub(crate) struct Gemm<'a> {
    pub(crate) x: View<'a>,
    pub(crate) bias: Option<View<'a>>,
    pub(crate) out: ViewMut<'a>,
    pub(crate) level: Level,
    pub(crate) pool: &'a ThreadPool,
    pub(crate) memory: &'a mut BlockMemory,
}

impl Gemm<'_> {
    /// Runs it against a weight.
    pub(crate) fn run(mut self, weight: &Packed, activations: Activations) {
        match weight {
            Packed::Affine(tiles) => match activations {
                Activations::Int8 => self.integers::<1>(tiles),
                Activations::Int16 => self.integers::<2>(tiles),
                Activations::Exact => self.exact(tiles),
            },
            Packed::Float8(tiles) => {
                let blocks = self.memory.floats(self.x, self.level, self.pool);
                self.tiles(&Float8(tiles), blocks);
            }
            Packed::Plain(tiles) => {
                let blocks = self.memory.floats(self.x, self.level, self.pool);
                match tiles.dtype {
                    DType::F32 => self.tiles(&Plain::<f32>::new(tiles), blocks),
                    DType::F16 => self.tiles(&Plain::<f16>::new(tiles), blocks),
                    DType::BF16 => self.tiles(&Plain::<bf16>::new(tiles), blocks),
                    other => unreachable!("{other} weights are refused when loading"),
                }
            }
        }
    }

    fn integers<const PLANES: usize>(&mut self, weight: &AffineTiles) {
        let sum = match weight.minimum {
            Minimum::Zero(zero) if weight.layout.bits == 8 => {
                Sum::Times(zero - self.level.centre())
            }
            Minimum::Zero(zero) => Sum::Times(zero),
            Minimum::Given(_) => Sum::Scaled,
        };
        let blocks =
            self.memory
                .bytes::<PLANES>(self.x, weight.layout.group, sum, self.level, self.pool);
        match (weight.layout.bits, weight.layout.group) {
            (4, 32) => self.tiles(&Int8::<4, 32, PLANES>(weight), blocks),
            (5, 32) => self.tiles(&Int8::<5, 32, PLANES>(weight), blocks),
            (8, 32) => self.tiles(&Int8::<8, 32, PLANES>(weight), blocks),
            (6, 16) => self.tiles(&Int8::<6, 16, PLANES>(weight), blocks),
            (8, 16) => self.tiles(&Int8::<8, 16, PLANES>(weight), blocks),
            other => unreachable!("bits and group {other:?} are not packed"),
        }
    }

    fn exact(&mut self, weight: &AffineTiles) {
        let blocks = self.memory.floats(self.x, self.level, self.pool);
        match (weight.layout.bits, weight.layout.group) {
            (4, 32) => self.tiles(&Exact::<4, 32>(weight), blocks),
            (5, 32) => self.tiles(&Exact::<5, 32>(weight), blocks),
            (8, 32) => self.tiles(&Exact::<8, 32>(weight), blocks),
            (6, 16) => self.tiles(&Exact::<6, 16>(weight), blocks),
            (8, 16) => self.tiles(&Exact::<8, 16>(weight), blocks),
            other => unreachable!("bits and group {other:?} are not packed"),
        }
    }

    fn tiles<K: TileKernel>(&mut self, kernel: &K, blocks: Blocks) {
        let features = self.out.cols();
        let target = Target {
            out: Shared(self.out.address().cast()),
            stride: self.out.stride(),
            features,
            bias: self.bias.map(View::into_slice::<f32>),
        };
        let level = self.level;
        self.pool.split(features.div_ceil(LANES), 1, |tiles| {
            level.run(Task {
                kernel,
                blocks,
                tiles,
                target: &target,
            });
        });
    }
}

/// Where results go.
struct Target<'a> {
    out: Shared<f32>,
    stride: usize,
    features: usize,
    bias: Option<&'a [f32]>,
}

impl Target<'_> {
    /// Writes the sums of a tile, the bias added.
    #[inline(always)]
    fn put<S: Simd, const R: usize>(&self, s: S, tile: usize, row: usize, sums: [S::F; R]) {
        let first = tile * LANES;
        let width = LANES.min(self.features - first);
        let bias = match self.bias {
            Some(bias) => s.load_tail(&bias[first..first + width]),
            None => s.splat(0.0),
        };
        for (r, &sum) in sums.iter().enumerate() {
            let sum = if self.bias.is_some() {
                s.add(sum, bias)
            } else {
                sum
            };
            let to = self.out.get().wrapping_add((row + r) * self.stride + first);
            // SAFETY: inside the row; this task alone writes these features of these rows.
            let to = unsafe { std::slice::from_raw_parts_mut(to, width) };
            match to.first_chunk_mut() {
                Some(to) => s.store(sum, to),
                None => s.store_tail(sum, to),
            }
        }
    }
}

/// Some tiles for all rows.
struct Task<'a, K> {
    kernel: &'a K,
    blocks: Blocks,
    tiles: Range<usize>,
    target: &'a Target<'a>,
}

impl<K: TileKernel> Vectorised for Task<'_, K> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let count = self.blocks.count();
        for panel in (0..count).step_by(PANEL) {
            for tile in self.tiles.clone() {
                for block in panel..(panel + PANEL).min(count) {
                    match self.blocks.height_of(block) {
                        1 => self.block::<S, 1>(s, tile, block),
                        2 => self.block::<S, 2>(s, tile, block),
                        3 => self.block::<S, 3>(s, tile, block),
                        4 => self.block::<S, 4>(s, tile, block),
                        height if S::ROWS == 8 => match height {
                            5 => self.block::<S, 5>(s, tile, block),
                            6 => self.block::<S, 6>(s, tile, block),
                            7 => self.block::<S, 7>(s, tile, block),
                            _ => self.block::<S, 8>(s, tile, block),
                        },
                        _ => unreachable!("blocks are at most as high as the level says"),
                    }
                }
            }
        }
    }
}

impl<K: TileKernel> Task<'_, K> {
    #[inline(always)]
    fn block<S: Simd, const R: usize>(&self, s: S, tile: usize, block: usize) {
        // SAFETY: the tile is the weight's; the block was prepared for it and has R rows.
        let sums = unsafe {
            self.kernel
                .tile::<S, R>(s, tile, self.blocks.address(block))
        };
        self.target.put(s, tile, block * self.blocks.height, sums);
    }
}
