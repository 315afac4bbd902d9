//! Random weights, for benchmarks and for timing GEMMs.

use ops::DeviceError;
use tensor::Buffer;

use super::Gemms;
use crate::launch::{Grid, launch};

/// Blocks and threads that share any number of elements.
const BLOCKS: usize = 1024;
const THREADS: usize = 256;

#[derive(Clone, Copy)]
#[repr(C)]
struct InventParams {
    out: u64,
    count: u64,
    seed: u64,
}

impl Gemms {
    /// Enqueues small random numbers of bf16 to memory that has room for them, equal for equal seeds.
    pub(crate) fn invent(&self, to: &Buffer, count: usize, seed: u64) -> Result<(), DeviceError> {
        assert!(
            2 * count <= to.bytes(),
            "there is room for what is invented"
        );
        let params = InventParams {
            out: to.address() as u64,
            count: count as u64,
            seed,
        };
        let grid = Grid::line(BLOCKS, THREADS);
        // SAFETY: the struct of the kernel; the buffer has that many elements (asserted).
        unsafe { launch(&self.context, self.invent, grid, &params) }
    }
}
