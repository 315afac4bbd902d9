//! GEMMs: weights packed in tiles of sixteen output features, rows of activations in blocks that share each read.
//!
//! A tile's columns are summed in one order by one thread, whatever the batch: a row has the same bits alone and in company.

mod affine;
mod blocks;
mod exact;
mod float8;
mod int8;
mod lanes;
mod matmul;
mod plain;
mod quants;

pub(crate) use affine::AffineTiles;
pub(crate) use blocks::BlockMemory;
pub(crate) use float8::Float8Tiles;
pub(crate) use matmul::Gemm;
pub(crate) use plain::PlainTiles;

use ops::{HostValues, HostWeight};

use crate::memory::Store;
use crate::thread_pool::ThreadPool;

/// A weight in the layout of this crate.
pub(crate) enum Packed {
    /// Elements as the file holds them.
    Plain(PlainTiles),
    /// Quantised groups.
    Affine(AffineTiles),
    /// Floats of eight bits.
    Float8(Float8Tiles),
}

impl Packed {
    /// Brings a weight into tiles.
    pub(crate) fn pack(weight: &HostWeight<'_>, pool: &ThreadPool, store: &mut Store) -> Self {
        let shape = (weight.rows, weight.cols);
        match &weight.values {
            HostValues::Plain(dtype, bytes) => {
                Self::Plain(PlainTiles::pack(shape, *dtype, bytes, pool, store))
            }
            HostValues::Affine(rows) => Self::Affine(AffineTiles::pack(shape, rows, pool, store)),
            HostValues::Float8(rows) => Self::Float8(Float8Tiles::pack(shape, rows, pool, store)),
        }
    }

    /// Memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Plain(tiles) => tiles.bytes(),
            Self::Affine(tiles) => tiles.bytes(),
            Self::Float8(tiles) => tiles.bytes(),
        }
    }

    /// One row as plain numbers.
    pub(crate) fn row(&self, row: usize, out: &mut [f32]) {
        match self {
            Self::Plain(tiles) => tiles.row(row, out),
            Self::Affine(tiles) => tiles.row(row, out),
            Self::Float8(tiles) => tiles.row(row, out),
        }
    }
}

/// A pointer that several threads write through, each its own elements.
pub(crate) struct Shared<T>(pub(crate) *mut T);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

// SAFETY: the caller of `new` promises that threads write disjoint elements and that nothing else uses the memory.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// The address, by a method so that closures capture the whole value.
    pub(crate) fn get(self) -> *mut T {
        self.0
    }
}
