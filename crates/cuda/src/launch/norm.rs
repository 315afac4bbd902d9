use ops::{AddRmsNorm, OpError, RmsNorm};
use tensor::{DType, View};

use super::{Grid, are_pieces, launch};
use crate::device::CudaDevice;

#[derive(Clone, Copy)]
#[repr(C)]
struct NormParams {
    x: u64,
    residual: u64,
    weight: u64,
    out: u64,
    x_stride: u32,
    residual_stride: u32,
    out_stride: u32,
    width: u32,
    wide_weight: u32,
    pieces: u32,
    eps: f32,
}

/// Elements that a thread keeps.
const ELEMENTS: usize = 16;
/// Threads of the largest block.
const THREADS: usize = 1024;

impl NormParams {
    fn new(
        x: View<'_>,
        weight: View<'_>,
        residual: (u64, usize),
        out: (u64, usize),
        eps: f32,
    ) -> Self {
        let x_at = (x.address() as u64, x.stride());
        // A weight that is read by pieces must begin at one; it has one row.
        let weight_at = (weight.address() as u64, 0);
        Self {
            x: x_at.0,
            residual: residual.0,
            weight: weight_at.0,
            out: out.0,
            x_stride: x_at.1 as u32,
            residual_stride: residual.1 as u32,
            out_stride: out.1 as u32,
            width: x.cols() as u32,
            wide_weight: u32::from(weight.dtype() == DType::F32),
            pieces: u32::from(are_pieces(x.cols(), &[x_at, weight_at, residual, out])),
            eps,
        }
    }

    fn grid(&self, rows: usize) -> Grid {
        let width = self.width as usize;
        assert!(
            width <= ELEMENTS * THREADS,
            "rows of {width} elements are too long to normalise"
        );
        let units = if self.pieces == 1 { width / 8 } else { width };
        Grid::line(rows, units.next_multiple_of(32).min(THREADS))
    }
}

impl CudaDevice {
    pub(crate) fn launch_rms_norm(&self, op: &RmsNorm<'_>) -> Result<(), OpError> {
        let out = (op.out.address() as u64, op.out.stride());
        let params = NormParams::new(op.x, op.weight, (0, 0), out, op.eps);
        let grid = params.grid(op.x.rows());
        // SAFETY: the struct of the kernel; addresses and strides come from checked views.
        Ok(unsafe { launch(&self.context, self.functions.rms_norm, grid, &params) }?)
    }

    pub(crate) fn launch_add_rms_norm(&self, op: &AddRmsNorm<'_>) -> Result<(), OpError> {
        let residual = (op.residual.address() as u64, op.residual.stride());
        let out = (op.out.address() as u64, op.out.stride());
        let params = NormParams::new(op.x, op.weight, residual, out, op.eps);
        let grid = params.grid(op.x.rows());
        // SAFETY: the struct of the kernel; addresses and strides come from checked views.
        Ok(unsafe { launch(&self.context, self.functions.add_rms_norm, grid, &params) }?)
    }
}
