use std::sync::Arc;

use ops::{DeviceError, Draw, LogProbs, OpError, Sample, SampleParams};
use tensor::Buffer;

use super::{Grid, launch};
use crate::context::Context;
use crate::device::CudaDevice;
use crate::linear::MOST_ROWS;
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
    segments: u64,
    stride: u32,
    vocabulary: u32,
    shares: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct SettleParams {
    largest: u64,
    table_rows: u64,
    out: u64,
    last: u64,
    rows: u32,
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
/// Nanoseconds in which a block reads a usual row, and what it takes besides.
const READ: usize = 15_000;
const BESIDES: usize = 2_500;

/// Tokens that a segment of a row has at most, and bytes that are kept of it; kernels/sample/survey.cuh has the same.
const SEGMENT: usize = 3 * 4 * THREADS;
const SEGMENT_BYTES: usize = 16 + 8 * 256;
/// Segments that are kept for each block that a multiprocessor has room for.
const MOST_SEGMENTS: usize = 16;

/// What blocks that share a row exchange.
pub(crate) struct Sampling {
    found: Buffer,
    arrivals: Buffer,
    segments: Buffer,
    /// Keys of the largest logits of rows, zero but while a head is multiplied.
    largest: Buffer,
    units: usize,
}

impl Sampling {
    pub(crate) fn new(context: &Arc<Context>, units: usize) -> Result<Self, DeviceError> {
        // Rows are shared while there are fewer than two blocks a multiprocessor.
        let most = 2 * units + MOST_SHARES;
        Ok(Self {
            found: allocate(context, 8 * most, "what sampling found")?,
            arrivals: allocate(context, 4 * most, "sampling's arrivals")?,
            segments: allocate(
                context,
                2 * units * MOST_SEGMENTS * SEGMENT_BYTES,
                "sampling's segments",
            )?,
            largest: allocate(context, 8 * MOST_ROWS, "the largest logits")?,
            units,
        })
    }

    /// Keys of the argmax head, for as many rows as GEMMs of bf12 weights take.
    pub(crate) fn largest(&self) -> u64 {
        self.largest.address() as u64
    }
}

/// Blocks for each row: a multiprocessor runs one after the other.
fn shares(rows: usize, units: usize) -> usize {
    let most = (2 * units / rows).clamp(1, MOST_SHARES);
    let time = |shares: usize| (rows * shares).div_ceil(units) * (READ / shares + BESIDES);
    (1..=most).min_by_key(|&shares| time(shares)).unwrap_or(1)
}

impl CudaDevice {
    pub(crate) fn launch_sample(&self, op: &Sample<'_>) -> Result<(), OpError> {
        let cuts = op.logits.cols().div_ceil(SEGMENT).max(1);
        let at_once = (2 * self.sampling.units * MOST_SEGMENTS / cuts).max(1);
        for first in (0..op.logits.rows()).step_by(at_once) {
            self.launch_sample_rows(op, first, at_once.min(op.logits.rows() - first))?;
        }
        Ok(())
    }

    /// As many rows as there is room for what is kept of them.
    fn launch_sample_rows(
        &self,
        op: &Sample<'_>,
        first: usize,
        rows: usize,
    ) -> Result<(), DeviceError> {
        let shares = shares(rows, self.sampling.units);
        let behind = |address: *const u8, each: usize| address as u64 + (first * each) as u64;
        let params = SampleLaunch {
            logits: behind(op.logits.address(), 4 * op.logits.stride()),
            params: behind(op.draw.params.address(), SampleParams::BYTES),
            positions: behind(op.draw.positions.address(), 4),
            table_rows: behind(op.draw.table_rows.address(), 4),
            out: behind(op.draw.out.address(), 4),
            last: op.draw.last.address() as u64,
            found: self.sampling.found.address() as u64,
            arrivals: self.sampling.arrivals.address() as u64,
            segments: self.sampling.segments.address() as u64,
            stride: op.logits.stride() as u32,
            vocabulary: op.logits.cols() as u32,
            shares: shares as u32,
        };
        let grid = Grid::line(rows * shares, THREADS);
        // SAFETY: the struct of the kernel; addresses come from checked views.
        unsafe { launch(&self.context, self.functions.sample, grid, &params) }
    }

    /// Tokens of the largest logits, of which keys are there; makes the keys ready for the next step.
    pub(crate) fn finish_argmax(&self, draw: &Draw<'_>) -> Result<(), DeviceError> {
        let rows = draw.table_rows.cols();
        let params = SettleParams {
            largest: self.sampling.largest(),
            table_rows: draw.table_rows.address() as u64,
            out: draw.out.address() as u64,
            last: draw.last.address() as u64,
            rows: rows as u32,
        };
        let grid = Grid::line(1, MOST_ROWS);
        // SAFETY: the struct of the kernel; addresses come from checked views.
        unsafe { launch(&self.context, self.functions.finish_argmax, grid, &params) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_shared_so_that_few_turns_of_all_blocks_are_needed() {
        for (rows, expected) in [
            (1, 16),
            (8, 16),
            (16, 8),
            (64, 2),
            (80, 3),
            (128, 1),
            (500, 1),
        ] {
            assert_eq!(shares(rows, 132), expected, "{rows} rows");
        }
    }
}
