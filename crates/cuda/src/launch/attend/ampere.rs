//! Sequences with many new tokens where Hopper's instructions are not to be had.

use ops::{Attend, DeviceError};

use super::super::{Grid, launch};
use super::tiles::{Source, TILE_ROWS};
use super::{AttendParams, DIMS, dim_index, tiles};
use crate::device::CudaDevice;
use crate::module::{Function, Modules};

#[derive(Clone, Copy)]
#[repr(C)]
struct AmpereTilesParams {
    attend: AttendParams,
    tokens: u32,
    widened: u32,
}

/// Threads of a block.
const THREADS: usize = 256;
/// Sizes of heads that there are kernels for.
const HELD: usize = 2;

/// Shared memory of a block: two stages of 64 keys and as many values.
const fn room(dim: usize) -> usize {
    2 * 2 * 64 * 2 * dim
}

/// The kernels, by size of heads.
pub(super) struct AmpereTiles([Function; HELD]);

impl AmpereTiles {
    pub(super) fn find(modules: &Modules) -> Result<Self, DeviceError> {
        let one = |dim: usize| modules.find_with_shared(&format!("attend_ampere_{dim}"), room(dim));
        Ok(Self([one(DIMS[0])?, one(DIMS[1])?]))
    }
}

/// True when queries, keys and values are 16-byte aligned, and heads are not wider than those there are kernels for.
pub(super) fn take(op: &Attend<'_>) -> bool {
    tiles::take(op) && dim_index(op) < HELD
}

impl CudaDevice {
    pub(super) fn launch_ampere_tiles(
        &self,
        op: &Attend<'_>,
        source: &Source,
        tiles: &AmpereTiles,
    ) -> Result<(), DeviceError> {
        let tokens = TILE_ROWS / op.heads.group();
        let params = AmpereTilesParams {
            attend: source.params,
            tokens: tokens as u32,
            widened: u32::from(source.widened),
        };
        let most = op.query.rows() / tokens + op.batch.rows();
        let index = dim_index(op);
        let grid = Grid {
            blocks: (most * op.heads.kv, 1, 1),
            threads: THREADS,
            shared: room(DIMS[index]),
        };
        // SAFETY: the struct of the kernel; addresses and strides come from checked views.
        unsafe { launch(&self.context, tiles.0[index], grid, &params) }
    }
}
