use std::sync::Arc;

use ops::{DeviceError, LogProbs, OpError, Sample};
use tensor::Buffer;

use super::{Grid, launch};
use crate::context::Context;
use crate::device::CudaDevice;
use crate::memory::allocate;

#[derive(Clone, Copy)]
#[repr(C)]
struct SampleLaunch {
    logits: u64,
    params: u64,
    positions: u64,
    table_rows: u64,
    out: u64,
    last: u64,
    found: u64,
    arrivals: u64,
    stride: u32,
    vocabulary: u32,
    shares: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct LogProbsLaunch {
    logits: u64,
    targets: u64,
    temperatures: u64,
    log_probs: u64,
    top_tokens: u64,
    top_log_probs: u64,
    stride: u32,
    vocabulary: u32,
    columns: u32,
    top: u32,
}

/// Threads of a block.
const THREADS: usize = 1024;
/// Blocks that share a row when there are few rows.
const MOST_SHARES: usize = 16;

/// What blocks that share a row tell each other.
pub(crate) struct Sampling {
    found: Buffer,
    arrivals: Buffer,
    units: usize,
}

impl Sampling {
    pub(crate) fn new(context: &Arc<Context>, units: usize) -> Result<Self, DeviceError> {
        // Rows are shared while there are fewer than two blocks a multiprocessor.
        let most = 2 * units + MOST_SHARES;
        Ok(Self {
            found: allocate(context, 8 * most, "what sampling found")?,
            arrivals: allocate(context, 4 * most, "sampling's arrivals")?,
            units,
        })
    }
}

impl CudaDevice {
    pub(crate) fn launch_sample(&self, op: &Sample<'_>) -> Result<(), OpError> {
        let rows = op.logits.rows();
        // Two blocks of 1024 threads fit a multiprocessor.
        let shares = (2 * self.sampling.units / rows.max(1)).clamp(1, MOST_SHARES);
        let params = SampleLaunch {
            logits: op.logits.address() as u64,
            params: op.params.address() as u64,
            positions: op.positions.address() as u64,
            table_rows: op.table_rows.address() as u64,
            out: op.out.address() as u64,
            last: op.last.address() as u64,
            found: self.sampling.found.address() as u64,
            arrivals: self.sampling.arrivals.address() as u64,
            stride: op.logits.stride() as u32,
            vocabulary: op.logits.cols() as u32,
            shares: shares as u32,
        };
        let grid = Grid::line(op.logits.rows() * shares, THREADS);
        // SAFETY: the struct of the kernel; addresses come from checked views.
        Ok(unsafe { launch(&self.context, self.functions.sample, grid, &params) }?)
    }

    pub(crate) fn launch_log_probs(&self, op: &LogProbs<'_>) -> Result<(), OpError> {
        let top = op.top.as_ref();
        let params = LogProbsLaunch {
            logits: op.logits.address() as u64,
            targets: op.targets.address() as u64,
            temperatures: op.temperatures.address() as u64,
            log_probs: op.log_probs.address() as u64,
            top_tokens: top.map_or(0, |top| top.tokens.address() as u64),
            top_log_probs: top.map_or(0, |top| top.log_probs.address() as u64),
            stride: op.logits.stride() as u32,
            vocabulary: op.logits.cols() as u32,
            columns: op.targets.cols() as u32,
            top: top.map_or(0, |top| top.tokens.cols() as u32),
        };
        let grid = Grid::line(op.logits.rows(), THREADS);
        // SAFETY: the struct of the kernel; addresses come from checked views.
        Ok(unsafe { launch(&self.context, self.functions.log_probs, grid, &params) }?)
    }
}
