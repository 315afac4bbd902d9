//! Sequences with many new tokens: tiles of their queries against blocks of keys and values.

use std::sync::Arc;

use ops::{Attend, DeviceError};
use tensor::Buffer;

use super::super::{Grid, WHOLE_ROOM, launch};
use super::{AttendParams, DIMS, common_divisor, copies_vectors, dim_index};
use crate::context::Context;
use crate::device::CudaDevice;
use crate::memory::allocate;
use crate::module::{Function, Modules};
use crate::tensor_map::{TensorMap, TiledMatrix};

#[derive(Clone, Copy)]
#[repr(C, align(128))]
struct TilesParams {
    query: TensorMap,
    keys: TensorMap,
    values: TensorMap,
    attend: AttendParams,
    tokens: u32,
    run: u32,
    taken: u64,
    widened: u32,
}

/// Rows of queries in a tile.
pub(super) const TILE_ROWS: usize = 128;
/// Rows of a batch that the kernels can list.
pub(super) const MOST_ROWS: usize = 2048;

/// The kernels by size of heads, and how many tiles are taken.
pub(super) struct Tiles {
    functions: [Function; 3],
    taken: Buffer,
}

impl Tiles {
    pub(super) fn new(context: &Arc<Context>, modules: &Modules) -> Result<Self, DeviceError> {
        let one = |dim| modules.find_with_shared(&format!("attend_tiles_{dim}"), WHOLE_ROOM);
        Ok(Self {
            functions: [one(DIMS[0])?, one(DIMS[1])?, one(DIMS[2])?],
            taken: allocate(context, 8, "attention's tiles")?,
        })
    }
}

/// True when the copy engine can read queries, keys and values, those of one byte once they are widened.
pub(super) fn take(op: &Attend<'_>) -> bool {
    copies_vectors(op) && op.heads.group() <= TILE_ROWS && op.batch.rows() <= MOST_ROWS
}

/// Keys and values as the tile kernel reads them: bf16, in pages of `params`.
pub(super) struct Source {
    pub(super) params: AttendParams,
    /// Positions there is memory for.
    pub(super) slots: usize,
    pub(super) widened: bool,
}

impl Source {
    /// As they lie in the cache.
    pub(super) fn cache(op: &Attend<'_>, params: &AttendParams) -> Self {
        Self {
            params: *params,
            slots: op.cache.slots(),
            widened: false,
        }
    }
}

impl CudaDevice {
    pub(super) fn launch_tiles(
        &self,
        op: &Attend<'_>,
        source: &Source,
        kernels: &Tiles,
    ) -> Result<(), DeviceError> {
        let (heads, group, params) = (op.heads, op.heads.group(), &source.params);
        let dim_index = dim_index(op);
        let keys_at_once = if DIMS[dim_index] <= 128 { 128 } else { 64 };
        let run = common_divisor(params.page_size as usize, keys_at_once);
        let tokens = TILE_ROWS / group;
        let cached = |address: u64| {
            TensorMap::new(&TiledMatrix {
                address,
                sizes: &[heads.dim as u64, heads.kv as u64, source.slots as u64],
                strides: &[2 * heads.dim as u64, 2 * heads.kv_width() as u64],
                shape: &[TensorMap::SLICE, 1, run as u32],
            })
        };
        let tiles = TilesParams {
            query: TensorMap::new(&TiledMatrix {
                address: params.query,
                sizes: &[heads.dim as u64, heads.query as u64, op.query.rows() as u64],
                strides: &[2 * heads.dim as u64, 2 * op.query.stride() as u64],
                shape: &[TensorMap::SLICE, group as u32, tokens as u32],
            })?,
            keys: cached(params.keys)?,
            values: cached(params.values)?,
            attend: *params,
            tokens: tokens as u32,
            run: run as u32,
            taken: kernels.taken.address() as u64,
            widened: u32::from(source.widened),
        };
        let most = (op.query.rows() / tokens + op.batch.rows()) * heads.kv;
        let grid = Grid {
            blocks: (most.min(self.attention.units), 1, 1),
            threads: 384,
            shared: WHOLE_ROOM,
        };
        let function = kernels.functions[dim_index];
        // SAFETY: the struct of the kernel; addresses and strides come from checked views.
        unsafe { launch(&self.context, function, grid, &tiles) }
    }
}
