use ops::{
    Activation, CountTokens, DeviceError, GatedActivation, OpError, ResolveTokens, UpdatePages,
};
use tensor::{View, ViewMut};

use super::{Grid, are_aligned, launch, launch_late};
use crate::context::Context;
use crate::device::CudaDevice;
use crate::module::Function;

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct ResolveParams {
    pub(crate) staged: u64,
    pub(crate) last: u64,
    pub(crate) out: u64,
    pub(crate) tokens: u32,
}

impl ResolveParams {
    pub(crate) fn grid(&self) -> Grid {
        Grid::over(self.tokens as usize, 256)
    }
}

#[derive(Clone, Copy)]
#[repr(C)]
struct UpdatePagesParams {
    rows: u64,
    columns: u64,
    pages: u64,
    table: u64,
    stride: u32,
    count: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct CountParams {
    clear: u64,
    rows: u64,
    tokens: u64,
    counts: u64,
    vocabulary: u32,
    clears: u32,
    count: u32,
}

/// Rows by index; also the kernel that GEMMs are timed beside.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct GatherParams {
    pub(crate) x: u64,
    pub(crate) indices: u64,
    pub(crate) out: u64,
    pub(crate) x_stride: u32,
    pub(crate) out_stride: u32,
    pub(crate) width: u32,
    pub(crate) vectors: u32,
}

impl GatherParams {
    /// For `rows` rows.
    pub(crate) fn grid(&self, rows: usize) -> Grid {
        let vectors = self.width as usize / 8;
        Grid::line(rows, vectors.next_multiple_of(32).clamp(32, 256))
    }
}

#[derive(Clone, Copy)]
#[repr(C)]
struct ActivationParams {
    gate_up: u64,
    out: u64,
    in_stride: u32,
    out_stride: u32,
    width: u32,
    gelu: u32,
    vectors: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct ScaleParams {
    rows: u64,
    stride: u32,
    width: u32,
    factor: f32,
}

/// Pieces of an activation that a thread takes; kernels/activation.cu has the same number.
const VECTORS: usize = 2;

impl CudaDevice {
    pub(crate) fn launch_resolve_tokens(&self, op: &ResolveTokens<'_>) -> Result<(), OpError> {
        let params = ResolveParams {
            staged: op.staged.address() as u64,
            last: op.last.address() as u64,
            out: op.out.address() as u64,
            tokens: op.staged.cols() as u32,
        };
        if self.context.opening().keeps_tokens(&params) {
            return Ok(());
        }
        let function = self.functions.resolve_tokens;
        // SAFETY: the struct of the kernel; addresses come from checked views.
        Ok(unsafe { launch_late(&self.context, function, params.grid(), &params) }?)
    }

    pub(crate) fn launch_update_pages(&self, op: &UpdatePages<'_>) -> Result<(), OpError> {
        let params = UpdatePagesParams {
            rows: op.rows.address() as u64,
            columns: op.columns.address() as u64,
            pages: op.pages.address() as u64,
            table: op.table.address() as u64,
            stride: op.table.stride() as u32,
            count: op.rows.cols() as u32,
        };
        let grid = Grid::over(op.rows.cols(), 256);
        self.context.begin_epoch();
        // SAFETY: the struct of the kernel; addresses come from checked views.
        Ok(unsafe { launch(&self.context, self.functions.update_pages, grid, &params) }?)
    }

    pub(crate) fn launch_count_tokens(&self, op: &CountTokens<'_>) -> Result<(), OpError> {
        let params = CountParams {
            clear: op.clear.address() as u64,
            rows: op.rows.address() as u64,
            tokens: op.tokens.address() as u64,
            counts: op.counts.address() as u64,
            vocabulary: op.counts.cols() as u32,
            clears: op.clear.cols() as u32,
            count: op.rows.cols() as u32,
        };
        let counted = Grid::over(op.rows.cols(), 256);
        // SAFETY: the struct of both kernels; addresses come from checked views.
        unsafe {
            launch(
                &self.context,
                self.functions.clear_counts,
                Grid::line(op.clear.cols(), 256),
                &params,
            )?;
            launch(&self.context, self.functions.count_tokens, counted, &params)?;
        }
        Ok(())
    }

    pub(crate) fn launch_gather(
        &self,
        x: (u64, usize),
        indices: View<'_>,
        out: &ViewMut<'_>,
    ) -> Result<(), OpError> {
        let (address, stride) = x;
        let params = GatherParams {
            x: address,
            indices: indices.address() as u64,
            out: out.address() as u64,
            x_stride: stride as u32,
            out_stride: out.stride() as u32,
            width: out.cols() as u32,
            vectors: u32::from(are_aligned(
                out.cols(),
                &[(address, stride), (out.address() as u64, out.stride())],
            )),
        };
        let rows = indices.cols();
        if self.context.opening().keeps_rows(&params, rows) {
            return Ok(());
        }
        let function = self.functions.gather_rows;
        // SAFETY: the struct of the kernel; the caller's matrix has rows for all indices.
        Ok(unsafe { launch(&self.context, function, params.grid(rows), &params) }?)
    }

    /// Multiplies rows with a factor in place, unless it is one.
    pub(crate) fn launch_scale(&self, rows: &ViewMut<'_>, factor: f32) -> Result<(), OpError> {
        if (factor - 1.0).abs() <= 0.0 || rows.rows() == 0 {
            return Ok(());
        }
        let params = ScaleParams {
            rows: rows.address() as u64,
            stride: rows.stride() as u32,
            width: rows.cols() as u32,
            factor,
        };
        let grid = Grid::line(rows.rows(), 256);
        // SAFETY: the struct of the kernel; address and stride come from a checked view.
        Ok(unsafe { launch(&self.context, self.functions.scale_rows, grid, &params) }?)
    }

    pub(crate) fn launch_gated_activation(&self, op: &GatedActivation<'_>) -> Result<(), OpError> {
        let matrices = [
            (op.gate_up.address() as u64, op.gate_up.stride()),
            (op.out.address() as u64, op.out.stride()),
        ];
        let shape = (op.out.rows(), op.out.cols());
        let (function, gelu) = (
            self.functions.gated_activation,
            op.activation == Activation::GeluTanh,
        );
        Ok(launch_activation(
            &self.context,
            function,
            matrices,
            shape,
            gelu,
        )?)
    }
}

/// Enqueues the kernel for gates: addresses and strides of what is gated and of the results, which have that many rows and
/// columns.
pub(crate) fn launch_activation(
    context: &Context,
    function: Function,
    matrices: [(u64, usize); 2],
    (rows, width): (usize, usize),
    gelu: bool,
) -> Result<(), DeviceError> {
    let vectors = are_aligned(width, &matrices);
    let [(gate_up, in_stride), (out, out_stride)] = matrices;
    let params = ActivationParams {
        gate_up,
        out,
        in_stride: in_stride as u32,
        out_stride: out_stride as u32,
        width: width as u32,
        gelu: u32::from(gelu),
        vectors: u32::from(vectors),
    };
    let units = if vectors { width / 8 } else { width };
    let threads = units.next_multiple_of(32).min(256);
    let grid = Grid::rows(rows, units.div_ceil(VECTORS * threads), threads);
    // SAFETY: the struct of the kernel; addresses and strides come from checked views.
    unsafe { launch(context, function, grid, &params) }
}
