use ops::{Attend, DeviceError, OpError};
use tensor::DType;

use super::{Grid, launch};
use crate::device::CudaDevice;
use crate::module::{Function, Modules};

#[derive(Clone, Copy)]
#[repr(C)]
struct AttendParams {
    query: u64,
    keys: u64,
    values: u64,
    starts: u64,
    lengths: u64,
    table_rows: u64,
    page_table: u64,
    sinks: u64,
    out: u64,
    query_stride: u32,
    out_stride: u32,
    table_stride: u32,
    rows: u32,
    page_size: u32,
    query_heads: u32,
    kv_heads: u32,
    head_dim: u32,
    window: u32,
    fp8: u32,
    scale: f32,
    soft_cap: f32,
}

/// The kernels of attention.
pub(crate) struct AttendFunctions {
    attend: Function,
}

impl AttendFunctions {
    pub(crate) fn find(modules: &Modules) -> Result<Self, DeviceError> {
        Ok(Self {
            attend: modules.find("attend")?,
        })
    }
}

impl CudaDevice {
    pub(crate) fn launch_attend(&self, op: &Attend<'_>) -> Result<(), OpError> {
        let params = AttendParams {
            query: op.query.address() as u64,
            keys: op.cache.keys().address() as u64,
            values: op.cache.values().address() as u64,
            starts: op.batch.starts.address() as u64,
            lengths: op.batch.lengths.address() as u64,
            table_rows: op.batch.table_rows.address() as u64,
            page_table: op.batch.page_table.address() as u64,
            sinks: op.sinks.map_or(0, |sinks| sinks.address() as u64),
            out: op.out.address() as u64,
            query_stride: op.query.stride() as u32,
            out_stride: op.out.stride() as u32,
            table_stride: op.batch.page_table.stride() as u32,
            rows: op.batch.rows() as u32,
            page_size: op.batch.page_size as u32,
            query_heads: op.heads.query as u32,
            kv_heads: op.heads.kv as u32,
            head_dim: op.heads.dim as u32,
            window: op.window.map_or(u32::MAX, |window| window as u32),
            fp8: u32::from(op.cache.dtype() == DType::F8E4M3),
            scale: op.scale,
            soft_cap: op.soft_cap.unwrap_or(0.0),
        };
        let grid = Grid {
            blocks: (op.query.rows(), op.heads.query, 1),
            threads: 128,
            shared: 0,
        };
        // SAFETY: the struct of the kernel; addresses and strides come from checked views.
        Ok(unsafe { launch(&self.context, self.functions.attend.attend, grid, &params) }?)
    }
}
