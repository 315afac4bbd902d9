//! Keys and values of one byte, made bf16 for the tile kernel: one pass over what sequences with many new tokens see.

use std::sync::Arc;

use ops::{Attend, DeviceError};
use tensor::Buffer;

use super::super::{Grid, launch};
use super::AttendParams;
use super::tiles::{MOST_ROWS, Source};
use crate::context::Context;
use crate::device::CudaDevice;
use crate::memory::allocate;
use crate::module::{Function, Modules};

#[derive(Clone, Copy)]
#[repr(C)]
struct WidenParams {
    attend: AttendParams,
    keys: u64,
    values: u64,
    homes: u64,
    room: u32,
}

/// Positions of a page; kernels/attend/widened.cuh has the same number.
const PAGE: usize = 128;
/// Bytes for widened keys, and as many for values: 128 Ki positions of eight heads of 128 elements together. Rows that find
/// no room are read as they are, which is right but slow.
const KEYS: usize = 256 << 20;
const THREADS: usize = 256;
/// Positions that a block takes at once, and blocks a multiprocessor.
const POSITIONS: usize = 16;
const BLOCKS_EACH: usize = 4;

/// The kernel, the room, and where rows lie in it.
pub(super) struct Widened {
    function: Function,
    keys: Buffer,
    values: Buffer,
    homes: Buffer,
}

impl Widened {
    pub(super) fn new(context: &Arc<Context>, modules: &Modules) -> Result<Self, DeviceError> {
        Ok(Self {
            function: modules.find("attend_widen")?,
            keys: allocate(context, KEYS, "widened keys")?,
            values: allocate(context, KEYS, "widened values")?,
            homes: allocate(context, 4 * MOST_ROWS, "homes of widened rows")?,
        })
    }

    /// Pages of the op's heads that there is room for.
    fn pages(op: &Attend<'_>) -> usize {
        KEYS / (2 * op.heads.kv_width() * PAGE)
    }

    /// True when every row of the op finds room, however long it is.
    fn holds_all(op: &Attend<'_>) -> bool {
        let longest = op.batch.page_table.cols() * op.batch.page_size;
        op.batch.rows() * longest.div_ceil(PAGE) <= Self::pages(op)
    }

    /// The op as the kernels see it that leave widened rows out; as it is where none is left over.
    pub(super) fn left_over(&self, op: &Attend<'_>, params: &AttendParams) -> Option<AttendParams> {
        (!Self::holds_all(op)).then(|| AttendParams {
            few: u32::MAX,
            homes: self.homes.address() as u64,
            ..*params
        })
    }

    /// What the tile kernel reads instead of the cache.
    pub(super) fn source(&self, op: &Attend<'_>, params: &AttendParams) -> Source {
        let params = AttendParams {
            keys: self.keys.address() as u64,
            values: self.values.address() as u64,
            table_rows: self.homes.address() as u64,
            table_stride: 1,
            page_size: PAGE as u32,
            ..*params
        };
        Source {
            params,
            slots: Self::pages(op) * PAGE,
            widened: true,
        }
    }
}

impl CudaDevice {
    /// Widens what rows with many new tokens see, as far as there is room.
    pub(super) fn launch_widen(
        &self,
        op: &Attend<'_>,
        params: &AttendParams,
        widened: &Widened,
    ) -> Result<(), DeviceError> {
        let widen = WidenParams {
            attend: *params,
            keys: widened.keys.address() as u64,
            values: widened.values.address() as u64,
            homes: widened.homes.address() as u64,
            room: Widened::pages(op) as u32,
        };
        let longest = op.batch.page_table.cols() * op.batch.page_size;
        let most = op.batch.rows() * longest.div_ceil(POSITIONS);
        let blocks = most.min(BLOCKS_EACH * self.attention.units);
        // SAFETY: the struct of the kernel; addresses and strides come from checked views, and the room has that many pages.
        unsafe {
            launch(
                &self.context,
                widened.function,
                Grid::line(blocks, THREADS),
                &widen,
            )
        }
    }
}
