//! The kernels' parameters and grids.

use std::ops::Range;

use ops::DeviceError;
use tensor::{Buffer, DType, View, ViewMut};

use super::weight::{Scales, padded};
use super::{Float8Weight, SEGMENT};
use crate::launch::{Grid, launch};
use crate::linear::cluster::Cluster;
use crate::linear::epilogue::{Epilogue, EpilogueParams};
use crate::linear::{Gemm, Gemms};
use crate::lower::DeferredScale;
use crate::memory::allocate;
use crate::tensor_map::TensorMap;

#[derive(Clone, Copy)]
#[repr(C, align(128))]
struct Float8Params {
    weight: TensorMap,
    x: TensorMap,
    scales: Scales,
    epilogue: EpilogueParams,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct AnyParams {
    x: u64,
    codes: u64,
    scales: Scales,
    bias: u64,
    out: u64,
    x_stride: u32,
    out_stride: u32,
    inputs: u32,
    words: u32,
    outputs: u32,
    wide: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct ArrangeParams {
    from: u64,
    to: u64,
    inputs: u32,
    words: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct InventParams {
    to: u64,
    inputs: u32,
    words: u32,
    seed: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct WidenParams {
    codes: u64,
    scales: Scales,
    indices: u64,
    out: u64,
    first: u32,
    out_stride: u32,
    inputs: u32,
    words: u32,
}

pub(super) fn words(inputs: usize) -> u32 {
    (padded(inputs) / 4) as u32
}

/// One block per row, one thread per word, up to 256.
fn row_grid(rows: usize, inputs: usize) -> Grid {
    Grid::line(rows, (words(inputs) as usize).clamp(32, 256))
}

impl Gemms {
    /// Converts codes from file order to the device layout.
    pub(crate) fn arrange_float8(
        &self,
        codes: &Buffer,
        (outputs, inputs): (usize, usize),
    ) -> Result<Buffer, DeviceError> {
        let arranged = allocate(&self.context, outputs * padded(inputs), "weights")?;
        let params = ArrangeParams {
            from: codes.address() as u64,
            to: arranged.address() as u64,
            inputs: inputs as u32,
            words: words(inputs),
        };
        let grid = row_grid(outputs, inputs);
        // SAFETY: the struct of the kernel; both buffers have that many rows of that many codes.
        unsafe { launch(&self.context, self.float8().arrange, grid, &params) }?;
        // The uploaded codes may be freed, and dependents may read weights early.
        self.context.synchronise()?;
        Ok(arranged)
    }

    /// Fills codes with random numbers.
    pub(crate) fn invent_float8(
        &self,
        (outputs, inputs): (usize, usize),
        seed: u64,
    ) -> Result<Buffer, DeviceError> {
        let codes = allocate(&self.context, outputs * padded(inputs), "weights")?;
        let params = InventParams {
            to: codes.address() as u64,
            inputs: inputs as u32,
            words: words(inputs),
            seed: (seed ^ seed >> 32) as u32,
        };
        let grid = row_grid(outputs, inputs);
        // SAFETY: the struct of the kernel; the buffer has that many rows of that many codes.
        unsafe { launch(&self.context, self.float8().invent, grid, &params) }?;
        self.context.synchronise()?;
        Ok(codes)
    }

    pub(super) fn run_float8_own(
        &self,
        gemm: &Gemm<'_>,
        weight: &Float8Weight,
        cluster: Cluster,
    ) -> Result<(), DeviceError> {
        self.run_float8_fused(gemm, weight, cluster, None, &Epilogue::Store)
    }

    /// Enqueues a GEMM by our kernel, with fused neighbours.
    pub(crate) fn run_float8_fused(
        &self,
        gemm: &Gemm<'_>,
        weight: &Float8Weight,
        cluster: Cluster,
        norm: Option<DeferredScale<'_>>,
        epilogue: &Epilogue<'_>,
    ) -> Result<(), DeviceError> {
        let outputs = weight.outputs;
        let stages = weight.padded() / SEGMENT;
        let params = Float8Params {
            weight: if epilogue.is_gated() {
                weight.gated_map()?
            } else {
                weight.map
            },
            x: gemm.row_tiles(cluster.rows())?,
            scales: weight.scales(),
            epilogue: EpilogueParams::new(gemm, (outputs, stages), norm, epilogue),
        };
        let (context, kernels) = (&self.context, &self.float8().stream);
        let blocks = cluster.blocks(outputs);
        // SAFETY: the struct of the kernel; addresses and strides come from checked views.
        unsafe { kernels.launch(context, cluster, (epilogue, blocks), &params) }
    }

    pub(super) fn run_float8_any(
        &self,
        gemm: &Gemm<'_>,
        weight: &Float8Weight,
    ) -> Result<(), DeviceError> {
        let params = AnyParams {
            x: gemm.x.address() as u64,
            codes: weight.codes.address() as u64,
            scales: weight.scales(),
            bias: gemm.bias_address(),
            out: gemm.out.address() as u64,
            x_stride: gemm.x.stride() as u32,
            out_stride: gemm.out.stride() as u32,
            inputs: weight.inputs as u32,
            words: words(weight.inputs),
            outputs: weight.outputs as u32,
            wide: u32::from(gemm.out.dtype() == DType::F32),
        };
        let grid = Grid::rows(gemm.x.rows(), weight.outputs.div_ceil(8), 256);
        // SAFETY: the struct of the kernel; addresses and strides come from checked views.
        unsafe { launch(&self.context, self.float8().any, grid, &params) }
    }

    /// Widens rows of a weight to bf16.
    pub(super) fn widen_rows(
        &self,
        weight: &Float8Weight,
        rows: Range<usize>,
        to: &Buffer,
    ) -> Result<(), DeviceError> {
        self.widen(
            weight,
            (rows.start, 0, rows.len()),
            (to.address() as u64, weight.inputs),
        )
    }

    /// Rows of a weight by index, widened to bf16.
    pub(crate) fn gather_float8(
        &self,
        weight: &Float8Weight,
        indices: View<'_>,
        out: &ViewMut<'_>,
    ) -> Result<(), DeviceError> {
        let rows = (0, indices.address() as u64, indices.cols());
        self.widen(weight, rows, (out.address() as u64, out.stride()))
    }

    fn widen(
        &self,
        weight: &Float8Weight,
        (first, indices, rows): (usize, u64, usize),
        (out, stride): (u64, usize),
    ) -> Result<(), DeviceError> {
        let params = WidenParams {
            codes: weight.codes.address() as u64,
            scales: weight.scales(),
            indices,
            out,
            first: first as u32,
            out_stride: stride as u32,
            inputs: weight.inputs as u32,
            words: words(weight.inputs),
        };
        let grid = row_grid(rows, weight.inputs);
        // SAFETY: the struct of the kernel; the destination has room for that many rows.
        unsafe { launch(&self.context, self.float8().widen, grid, &params) }
    }
}
