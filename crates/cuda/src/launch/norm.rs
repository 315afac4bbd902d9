use ops::{AddRmsNorm, OpError, RmsNorm};

use super::{Grid, launch};
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
    eps: f32,
}

/// Vectors of eight elements that a thread may keep.
const VECTORS: usize = 4;

fn grid(rows: usize, width: usize) -> Grid {
    let vectors = width / 8;
    Grid::line(
        rows,
        vectors
            .min(1024)
            .max(vectors.div_ceil(VECTORS))
            .next_multiple_of(32)
            .min(1024),
    )
}

impl CudaDevice {
    pub(crate) fn launch_rms_norm(&self, op: &RmsNorm<'_>) -> Result<(), OpError> {
        let params = NormParams {
            x: op.x.address() as u64,
            residual: 0,
            weight: op.weight.address() as u64,
            out: op.out.address() as u64,
            x_stride: op.x.stride() as u32,
            residual_stride: 0,
            out_stride: op.out.stride() as u32,
            width: op.x.cols() as u32,
            eps: op.eps,
        };
        // SAFETY: the struct of the kernel; addresses and strides come from checked views.
        Ok(unsafe {
            launch(
                &self.context,
                self.functions.rms_norm,
                grid(op.x.rows(), op.x.cols()),
                &params,
            )
        }?)
    }

    pub(crate) fn launch_add_rms_norm(&self, op: &AddRmsNorm<'_>) -> Result<(), OpError> {
        let params = NormParams {
            x: op.x.address() as u64,
            residual: op.residual.address() as u64,
            weight: op.weight.address() as u64,
            out: op.out.address() as u64,
            x_stride: op.x.stride() as u32,
            residual_stride: op.residual.stride() as u32,
            out_stride: op.out.stride() as u32,
            width: op.x.cols() as u32,
            eps: op.eps,
        };
        // SAFETY: the struct of the kernel; addresses and strides come from checked views.
        Ok(unsafe {
            launch(
                &self.context,
                self.functions.add_rms_norm,
                grid(op.x.rows(), op.x.cols()),
                &params,
            )
        }?)
    }
}
