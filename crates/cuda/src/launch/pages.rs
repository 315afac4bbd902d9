use ops::{CopyPages, OpError};

use super::{Grid, launch};
use crate::device::CudaDevice;

#[derive(Clone, Copy)]
#[repr(C)]
struct CopyPagesParams {
    from: u64,
    to: u64,
    tokens: u64,
    memory: u64,
    slots: u64,
    width: u32,
    planes: u32,
    vectors: u32,
}

/// Blocks that copy a page of one plane; kernels/pages.cu has the same number.
const SHARERS: usize = 4;
const THREADS: usize = 256;

impl CudaDevice {
    pub(crate) fn launch_copy_pages(&self, op: &CopyPages<'_>) -> Result<(), OpError> {
        let memory = op.memory.address() as u64;
        let width = op.memory.cols() * op.memory.dtype().size();
        let params = CopyPagesParams {
            from: op.from.address() as u64,
            to: op.to.address() as u64,
            tokens: op.tokens.address() as u64,
            memory,
            slots: op.slots() as u64,
            width: width as u32,
            planes: op.planes as u32,
            vectors: u32::from(width.is_multiple_of(16) && memory.is_multiple_of(16)),
        };
        let grid = Grid::line(op.from.cols() * op.planes * SHARERS, THREADS);
        self.context.begin_epoch();
        // SAFETY: the struct of the kernel; addresses come from checked views.
        Ok(unsafe { launch(&self.context, self.functions.copy_pages, grid, &params) }?)
    }
}
