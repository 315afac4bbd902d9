//! Sequences with few new tokens, in any shape.

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use ops::{Attend, DeviceError};

use super::super::{Grid, HALF_ROOM, MIDDLE_ROOM, SMALL_ROOM, WHOLE_ROOM, launch};
use super::{AttendParams, COLUMNS, DIMS, Shape};
use crate::card::Generation;
use crate::context::Context;
use crate::device::CudaDevice;
use crate::module::{Function, Modules};

/// Shared memory of a block that the driver keeps for itself.
const KEPT: usize = 1024;

/// The kernels.
pub(super) struct Splits {
    /// By size of heads, columns, and whether keys and values are narrow; the widest heads may have none.
    functions: Vec<[[Function; 2]; 2]>,
    /// Shared memory of a block, and blocks that a multiprocessor has room for.
    rooms: [usize; DIMS.len()],
    blocks: [usize; DIMS.len()],
}

impl Splits {
    pub(super) fn find(context: &Context, modules: &Modules) -> Result<Self, DeviceError> {
        let (suffix, rooms) = match modules.generation() {
            Generation::Hopper => ("", [HALF_ROOM, HALF_ROOM, WHOLE_ROOM]),
            Generation::Ampere => ("_small", [SMALL_ROOM, SMALL_ROOM, MIDDLE_ROOM]),
        };
        let most =
            context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        let each = context
            .attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?;
        let one = |dim: usize, room: usize, columns: usize, kv: &str| {
            let name = format!("attend_split_{dim}_{columns}_{kv}{suffix}");
            modules.find_with_shared(&name, room)
        };
        let all = |(dim, room)| {
            let both = |columns| {
                Ok([
                    one(dim, room, columns, "bf16")?,
                    one(dim, room, columns, "fp8")?,
                ])
            };
            Ok([both(COLUMNS[0])?, both(COLUMNS[1])?])
        };
        let held = DIMS.into_iter().zip(rooms);
        let held = held.take_while(|&(_, room)| room <= most);
        Ok(Self {
            functions: held.map(all).collect::<Result<_, DeviceError>>()?,
            rooms,
            blocks: rooms.map(|room| (each / (room + KEPT)).clamp(1, 2)),
        })
    }

    /// The size of the widest heads that there are kernels for.
    pub(super) fn widest(&self) -> usize {
        DIMS[self.functions.len().saturating_sub(1)]
    }

    /// Blocks of a multiprocessor.
    pub(super) fn blocks_each(&self, shape: &Shape) -> usize {
        self.blocks[shape.dim_index]
    }
}

impl CudaDevice {
    pub(super) fn launch_split(
        &self,
        op: &Attend<'_>,
        shape: &Shape,
        params: &AttendParams,
    ) -> Result<(), DeviceError> {
        let splits = &self.attention.splits;
        let functions = splits.functions.get(shape.dim_index);
        let functions = functions.expect("wider heads are refused before a model is loaded");
        let function = functions[shape.column_index][usize::from(shape.narrow)];
        let grid = Grid {
            blocks: (params.workers as usize * op.heads.kv, 1, 1),
            threads: 128,
            shared: splits.rooms[shape.dim_index],
        };
        // SAFETY: the struct of the kernel; addresses and strides come from checked views.
        unsafe { launch(&self.context, function, grid, params) }
    }
}
