//! GEMMs with more rows than one warpgroup's accumulators hold, where outputs fill the SMs without split-K.

use ops::DeviceError;
use tensor::DType;

use super::epilogue::{Epilogue, EpilogueParams};
use super::kernels::LinearParams;
use super::{DeviceWeight, Gemm};
use crate::context::Context;
use crate::launch::{Grid, WHOLE_ROOM, launch};
use crate::module::{Function, Modules};
use crate::tensor_map::{TensorMap, TiledMatrix};

/// Outputs of a tile.
const OUTPUTS: usize = 192;
/// Rows of x in a TMA tile; an output tile has two.
const ROWS: usize = 128;
const THREADS: usize = 512;

/// The kernels, with the store and the gated epilogue.
pub(super) struct WideKernels {
    functions: [Function; 2],
    units: usize,
}

impl WideKernels {
    pub(super) fn find(modules: &Modules, units: usize) -> Result<Self, DeviceError> {
        let [results, gated, _] = Epilogue::NAMES;
        let find = |name| modules.find_with_shared(&format!("{name}_wide"), WHOLE_ROOM);
        Ok(Self {
            functions: [find(results)?, find(gated)?],
            units,
        })
    }

    /// True when the GEMM is one for these kernels, and keeps most SMs busy.
    pub(super) fn take(&self, gemm: &Gemm<'_>) -> bool {
        let shape = (gemm.x.rows(), gemm.out.cols());
        gemm.out.dtype() == DType::BF16
            && gemm.results_are_aligned()
            && are_worth(shape, self.units)
    }

    /// Enqueues a GEMM that they [take](Self::take), plain or gated.
    pub(super) fn run(
        &self,
        context: &Context,
        gemm: &Gemm<'_>,
        weight: &DeviceWeight,
        epilogue: &Epilogue<'_>,
    ) -> Result<(), DeviceError> {
        let x = &gemm.x;
        let outputs = epilogue.outputs(gemm);
        let stages = x.cols().div_ceil(TensorMap::SLICE as usize);
        let address = weight.buffer.address() as u64;
        let params = LinearParams {
            weight: weight_map(address, (outputs, x.cols()), epilogue.is_gated())?,
            x: gemm.row_tiles(ROWS)?,
            epilogue: EpilogueParams::new(gemm, (outputs, stages), None, epilogue),
        };
        let grid = Grid {
            blocks: (outputs.div_ceil(OUTPUTS), 1, 1),
            threads: THREADS,
            shared: WHOLE_ROOM,
        };
        let function = self.functions[usize::from(epilogue.is_gated())];
        // SAFETY: the struct of the kernel; addresses and strides come from checked views.
        unsafe { launch(context, function, grid, &params) }
    }
}

/// Rows and outputs: more rows than our other kernels take, and tiles for at least half of the SMs.
fn are_worth((rows, outputs): (usize, usize), units: usize) -> bool {
    let tiles = outputs.div_ceil(OUTPUTS);
    (ROWS + 1..=2 * ROWS).contains(&rows) && outputs.is_multiple_of(16) && 2 * tiles >= units
}

/// TMA tiles of sixteen outputs each: eight gates and their up rows, or even outputs and odd ones.
fn weight_map(
    address: u64,
    (outputs, inputs): (usize, usize),
    gated: bool,
) -> Result<TensorMap, DeviceError> {
    let (row, outputs) = (2 * inputs as u64, outputs as u64);
    let (each, other) = if gated {
        (row, outputs / 2 * row)
    } else {
        (2 * row, row)
    };
    TensorMap::new(&TiledMatrix {
        address,
        sizes: &[inputs as u64, 8, 2, outputs / 16],
        strides: &[each, other, if gated { 8 * row } else { 16 * row }],
        shape: &[TensorMap::SLICE, 8, 2, OUTPUTS as u32 / 16],
    })
}

#[cfg(test)]
mod tests {
    use super::are_worth;

    #[test]
    fn wide_tiles_take_rows_that_others_do_not_and_outputs_that_fill_half_of_the_device() {
        for (shape, expected) in [
            ((256, 24_576), true),
            ((129, 24_576), true),
            ((128, 24_576), false),
            ((257, 24_576), false),
            ((256, 4096), false),
            ((256, 66 * 192), true),
            ((256, 65 * 192), false),
            ((256, 24_576 + 8), false),
        ] {
            assert_eq!(are_worth(shape, 132), expected, "{shape:?}");
        }
    }
}
