use ops::{EditLogits, OpError, Penalise};

use super::{Grid, launch};
use crate::device::CudaDevice;

#[derive(Clone, Copy)]
#[repr(C)]
struct EditParams {
    rows: u64,
    tokens: u64,
    values: u64,
    logits: u64,
    stride: u32,
    count: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct PenaliseParams {
    counts: u64,
    table_rows: u64,
    params: u64,
    logits: u64,
    stride: u32,
    vocabulary: u32,
}

impl CudaDevice {
    pub(crate) fn launch_edit_logits(&self, op: &EditLogits<'_>) -> Result<(), OpError> {
        let params = EditParams {
            rows: op.rows.address() as u64,
            tokens: op.tokens.address() as u64,
            values: op.values.address() as u64,
            logits: op.logits.address() as u64,
            stride: op.logits.stride() as u32,
            count: op.rows.cols() as u32,
        };
        let grid = Grid::over(op.rows.cols(), 256);
        // SAFETY: the struct of the kernel; addresses come from checked views.
        Ok(unsafe { launch(&self.context, self.functions.edit_logits, grid, &params) }?)
    }

    pub(crate) fn launch_penalise(&self, op: &Penalise<'_>) -> Result<(), OpError> {
        let params = PenaliseParams {
            counts: op.counts.address() as u64,
            table_rows: op.table_rows.address() as u64,
            params: op.params.address() as u64,
            logits: op.logits.address() as u64,
            stride: op.logits.stride() as u32,
            vocabulary: op.logits.cols() as u32,
        };
        let grid = Grid::rows(op.logits.rows(), op.logits.cols().div_ceil(256), 256);
        // SAFETY: the struct of the kernel; addresses come from checked views.
        Ok(unsafe { launch(&self.context, self.functions.penalise, grid, &params) }?)
    }
}
