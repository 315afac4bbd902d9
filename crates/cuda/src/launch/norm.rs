use ops::{AddRmsNorm, DeviceError, OpError, RmsNorm};
use tensor::{DType, View};

use super::{Grid, are_aligned, launch};
use crate::context::Context;
use crate::device::CudaDevice;
use crate::module::Function;

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct NormParams {
    pub(crate) x: u64,
    residual: u64,
    pub(crate) weight: u64,
    pub(crate) out: u64,
    pub(crate) x_stride: u32,
    residual_stride: u32,
    pub(crate) out_stride: u32,
    pub(crate) width: u32,
    pub(crate) rows: u32,
    pub(crate) wide_weight: u32,
    vectors: u32,
    pub(crate) eps: f32,
}

/// Elements that a thread keeps.
const ELEMENTS: usize = 16;
/// Threads of a multiprocessor that normalise at the same time.
const MOST_THREADS: usize = 1536;
/// Threads of the largest block.
const THREADS: usize = 1024;
/// Elements of the longest row.
pub(super) const LONGEST: usize = ELEMENTS * THREADS;

impl NormParams {
    pub(crate) fn new(
        x: View<'_>,
        weight: View<'_>,
        residual: (u64, usize),
        out: (u64, usize),
        eps: f32,
    ) -> Self {
        let x_at = (x.address() as u64, x.stride());
        // A weight that is read by vectors must be aligned; it has one row.
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
            rows: x.rows() as u32,
            wide_weight: u32::from(weight.dtype() == DType::F32),
            vectors: u32::from(are_aligned(x.cols(), &[x_at, weight_at, residual, out])),
            eps,
        }
    }

    /// Of contiguous, 16-byte aligned rows.
    #[cfg(test)]
    pub(super) fn of_rows(x: u64, width: u32, rows: u32) -> Self {
        Self {
            x,
            residual: 0,
            weight: 0,
            out: 0,
            x_stride: width,
            residual_stride: 0,
            out_stride: width,
            width,
            rows,
            wide_weight: 1,
            vectors: 1,
            eps: 1e-6,
        }
    }

    /// True when a thread keeps one vector.
    pub(crate) fn is_short(&self) -> bool {
        self.vectors == 1 && self.width as usize <= 8 * THREADS
    }

    /// The same of other rows of as many elements, contiguous and 16-byte aligned.
    pub(crate) fn with_rows(self, x: View<'_>) -> Self {
        Self {
            x: x.address() as u64,
            x_stride: x.stride() as u32,
            ..self
        }
    }

    /// Enqueues a kernel that takes rows such as these.
    pub(crate) fn launch(
        &self,
        context: &Context,
        function: Function,
        units: usize,
    ) -> Result<(), DeviceError> {
        // SAFETY: the struct of the kernel; addresses and strides come from checked views.
        unsafe { launch(context, function, self.grid(units), self) }
    }

    /// Where there are many rows, a block takes one after the other.
    fn grid(&self, units: usize) -> Grid {
        let (width, rows) = (self.width as usize, self.rows as usize);
        assert!(
            width <= LONGEST,
            "a model with rows of {width} elements is refused before it is loaded"
        );
        let each = if self.vectors == 1 { width / 8 } else { width };
        let threads = each.next_multiple_of(32).min(THREADS);
        let blocks = units * (MOST_THREADS / threads);
        Grid::line(
            if self.is_short() {
                rows.min(blocks)
            } else {
                rows
            },
            threads,
        )
    }
}

impl CudaDevice {
    pub(crate) fn launch_rms_norm(&self, op: &RmsNorm<'_>) -> Result<(), OpError> {
        let out = (op.out.address() as u64, op.out.stride());
        let params = NormParams::new(op.x, op.weight, (0, 0), out, op.eps);
        if self.context.opening().opens(&self.context, &params)? {
            return Ok(());
        }
        let function = self.functions.rms_norm[usize::from(params.is_short())];
        Ok(params.launch(&self.context, function, self.info.units)?)
    }

    pub(crate) fn launch_add_rms_norm(&self, op: &AddRmsNorm<'_>) -> Result<(), OpError> {
        let residual = (op.residual.address() as u64, op.residual.stride());
        let out = (op.out.address() as u64, op.out.stride());
        let params = NormParams::new(op.x, op.weight, residual, out, op.eps);
        let function = self.functions.add_rms_norm[usize::from(params.is_short())];
        Ok(params.launch(&self.context, function, self.info.units)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::LARGEST;

    #[test]
    fn the_longest_rows_of_a_model_that_is_taken_have_threads() {
        let width = LARGEST.hidden as u32;
        for (vectors, width) in [(1, width), (0, width), (0, width - 1), (1, width / 2)] {
            let params = NormParams {
                vectors,
                ..NormParams::of_rows(1 << 20, width, 3)
            };
            let threads = params.grid(132).threads;
            assert!(threads * ELEMENTS >= width as usize, "{width} elements");
        }
    }
}
