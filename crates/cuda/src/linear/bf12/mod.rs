//! bf12 weights: 12-bit lossless bf16, read by GEMMs of up to 64 rows instead of the weight itself.

mod choose;

use std::sync::atomic::Ordering;

use ops::DeviceError;
use tensor::Buffer;

use super::cluster::{Cluster, Shapes};
use super::epilogue::{Epilogue, EpilogueParams};
use super::{DeviceWeight, Gemm, Gemms, Variant};
use crate::context::Context;
use crate::launch::{Grid, WHOLE_ROOM, launch};
use crate::lower::DeferredScale;
use crate::memory::{allocate, read};
use crate::module::{Function, Modules};
use crate::tensor_map::TensorMap;

/// Sizes of a unit and of its outliers; kernels/common/bf12.cuh has the same numbers.
pub(crate) const UNIT_ROWS: usize = 8;
pub(crate) const UNIT_INPUTS: usize = 128;
pub(crate) const UNIT_BYTES: usize = 1536;
pub(crate) const HEADER_BYTES: usize = 40;
const OUTLIER_BYTES: usize = 8;
const MAX_OUTLIERS: usize = 16;
/// Outputs come in pairs of units, gates and up rows apart; columns of outliers have sixteen bits.
const OUTPUTS: usize = 4 * UNIT_ROWS;
const MOST_INPUTS: usize = 1 << 16;
/// Units that a block encodes.
const UNITS_A_BLOCK: usize = 8;
/// Rows of x that the compiled shapes take.
const ROWS: [usize; 4] = [8, 16, 32, 64];
/// Ping-pong warpgroups of a tile of 64 outputs; kernels/linear_bf12.cu has the same number.
const PING_PONG_OF_ONE: usize = 2;
/// Prefixes of kernel names, by epilogue.
const NAMES: [&str; Epilogue::NAMES.len()] =
    ["linear_bf12", "linear_bf12_gated", "linear_bf12_add_norm"];

#[derive(Clone, Copy)]
#[repr(C)]
struct EncodeParams {
    weight: u64,
    units: u64,
    headers: u64,
    outliers: u64,
    counts: u64,
    rows: u32,
    inputs: u32,
}

#[derive(Clone, Copy)]
#[repr(C, align(128))]
struct Bf12Params {
    x: TensorMap,
    weight: u64,
    headers: u64,
    outliers: u64,
    units: u64,
    x_rows: u64,
    x_stride: u64,
    full_tiles: u64,
    epilogue: EpilogueParams,
}

impl Bf12Params {
    /// Of a GEMM with TMA tiles of `rows` rows; all tiles have all outputs.
    fn new(
        gemm: &Gemm<'_>,
        rows: usize,
        bf12: &Buffer,
        (norm, epilogue): (Option<DeferredScale<'_>>, &Epilogue<'_>),
    ) -> Result<Self, DeviceError> {
        let (x, outputs) = (&gemm.x, epilogue.outputs(gemm));
        let stages = x.cols().div_ceil(UNIT_INPUTS);
        let places = Layout::new((outputs, x.cols())).at(bf12);
        Ok(Self {
            x: gemm.row_tiles(rows)?,
            weight: places.units,
            headers: places.headers,
            outliers: places.outliers,
            units: (outputs / UNIT_ROWS) as u64,
            x_rows: x.address() as u64,
            x_stride: x.stride() as u64,
            full_tiles: 0,
            epilogue: EpilogueParams::new(gemm, (outputs, stages), norm, epilogue),
        })
    }
}

/// The layout of a bf12 weight: all units, their headers, then outliers.
struct Layout {
    /// Blocks of eight rows.
    blocks: usize,
    units: usize,
}

impl Layout {
    fn new((outputs, inputs): (usize, usize)) -> Self {
        let blocks = outputs / UNIT_ROWS;
        Self {
            blocks,
            units: blocks * inputs.div_ceil(UNIT_INPUTS),
        }
    }

    fn headers(&self) -> usize {
        self.units * UNIT_BYTES
    }

    fn outliers(&self) -> usize {
        self.headers() + self.units * HEADER_BYTES
    }

    fn bytes(&self) -> usize {
        self.outliers() + self.blocks * MAX_OUTLIERS * OUTLIER_BYTES
    }

    fn at(&self, bf12: &Buffer) -> Bf12Addresses {
        let address = bf12.address() as u64;
        Bf12Addresses {
            units: address,
            headers: address + self.headers() as u64,
            outliers: address + self.outliers() as u64,
        }
    }
}

/// Addresses of a bf12 weight's units (by segment of inputs), headers and outliers.
#[derive(Clone, Copy)]
pub(crate) struct Bf12Addresses {
    pub(crate) units: u64,
    pub(crate) headers: u64,
    pub(crate) outliers: u64,
}

impl DeviceWeight {
    /// None where the weight, `[outputs, inputs]`, is not bf12.
    pub(crate) fn bf12_addresses(&self, shape: (usize, usize)) -> Option<Bf12Addresses> {
        let bf12 = self.bf12.get()?;
        Some(Layout::new(shape).at(bf12))
    }
}

/// Bytes of a weight, `[outputs, inputs]`, as bf12; zero where units do not fit the shape.
pub(crate) fn bf12_bytes((outputs, inputs): (usize, usize)) -> usize {
    let fits = outputs.is_multiple_of(OUTPUTS) && inputs.is_multiple_of(8) && inputs <= MOST_INPUTS;
    if fits {
        Layout::new((outputs, inputs)).bytes()
    } else {
        0
    }
}

/// The most rows of GEMMs of bf12 weights.
pub(crate) const MOST_ROWS: usize = ROWS[ROWS.len() - 1];
/// Outputs of a tile of the argmax head, and threads of its blocks; kernels/linear_bf12.cu has the same numbers.
const HEAD_TILE: usize = 192;
const HEAD_THREADS: usize = 512;

/// What GEMMs of one shape take instead, where their weight is bf12.
#[derive(Clone, Copy, Default)]
pub(super) struct Bf12Choice {
    /// Of GEMMs between small kernels.
    pub(super) alone: Option<Variant>,
    /// Of GEMMs with fused neighbours.
    pub(super) fused: Option<Variant>,
}

/// The kernels that encode bf12 weights and multiply them.
pub(super) struct Bf12Kernels {
    encode: Function,
    shapes: Shapes<{ ROWS.len() }>,
    /// With an argmax epilogue, by rows.
    argmax_heads: [Function; ROWS.len()],
    units: usize,
}

impl Bf12Kernels {
    pub(super) fn find(modules: &Modules, units: usize) -> Result<Self, DeviceError> {
        let encode = modules.find("encode_bf12")?;
        let mut argmax_heads = [encode; _];
        for (head, rows) in argmax_heads.iter_mut().zip(ROWS) {
            let name = format!("linear_bf12_argmax_{rows}");
            *head = modules.find_with_shared(&name, WHOLE_ROOM)?;
        }
        Ok(Self {
            encode,
            shapes: Shapes::find(
                (modules, units),
                NAMES,
                ROWS,
                (UNIT_INPUTS, PING_PONG_OF_ONE),
            )?,
            argmax_heads,
            units,
        })
    }

    /// Candidates for a GEMM.
    pub(super) fn variants(&self, gemm: &Gemm<'_>) -> Vec<Cluster> {
        let shape = (gemm.out.cols(), gemm.x.cols());
        if gemm.results_are_quads() {
            self.shapes.variants(gemm.x.rows(), shape)
        } else {
            Vec::new()
        }
    }

    /// Enqueues a GEMM with a bf12 weight; rows of `x` are 16-byte aligned.
    pub(super) fn run(
        &self,
        context: &Context,
        cluster: Cluster,
        gemm: &Gemm<'_>,
        bf12: &Buffer,
        (norm, epilogue): (Option<DeferredScale<'_>>, &Epilogue<'_>),
    ) -> Result<(), DeviceError> {
        let outputs = epilogue.outputs(gemm);
        let (blocks, full_tiles) = if epilogue.is_gated() {
            let tiles = self.shapes.spread(cluster, outputs);
            (tiles.all, tiles.full)
        } else {
            (cluster.blocks(outputs), 0)
        };
        let params = Bf12Params::new(gemm, cluster.rows(), bf12, (norm, epilogue))?;
        let delays_dependents = context.begins_with_opening()?;
        let params = Bf12Params {
            full_tiles: full_tiles as u64,
            epilogue: params.epilogue.delaying_dependents(delays_dependents),
            ..params
        };
        // SAFETY: the struct of the kernel; addresses and strides come from checked views, and the weight was encoded in this
        // shape.
        unsafe {
            self.shapes
                .launch(context, cluster, (epilogue, blocks), &params)
        }
    }

    /// Enqueues a GEMM with an argmax epilogue; rows of `x` are 16-byte aligned.
    pub(super) fn run_argmax(
        &self,
        context: &Context,
        gemm: &Gemm<'_>,
        bf12: &Buffer,
        norm: Option<DeferredScale<'_>>,
        keys: u64,
    ) -> Result<(), DeviceError> {
        let known = ROWS.iter().position(|&rows| rows >= gemm.x.rows());
        let number = known.expect("no more rows than there are kernels for");
        let params = Bf12Params::new(gemm, ROWS[number], bf12, (norm, &Epilogue::Store))?;
        let params = Bf12Params {
            epilogue: params.epilogue.with_argmax_keys(keys),
            ..params
        };
        let grid = Grid {
            blocks: (gemm.out.cols().div_ceil(HEAD_TILE).min(self.units), 1, 1),
            threads: HEAD_THREADS,
            shared: WHOLE_ROOM,
        };
        // SAFETY: as above; there is a key for each row.
        unsafe { launch(context, self.argmax_heads[number], grid, &params) }
    }
}

impl Gemms {
    /// Keeps the weight, `[outputs, inputs]`, as bf12 as well, and chooses which GEMMs of up to `most_rows` rows read it. Returns
    /// the bytes that takes: none where units do not fit the shape, or some rows have too many outliers.
    pub(crate) fn encode_bf12(
        &self,
        weight: &DeviceWeight,
        shape: (usize, usize),
        most_rows: usize,
    ) -> Result<usize, DeviceError> {
        if !weight.aligned || bf12_bytes(shape) == 0 || weight.bf12.get().is_some() {
            return Ok(0);
        }
        let Some(bf12) = self.encode_bf12_buffer(&weight.buffer, shape)? else {
            let (outputs, inputs) = shape;
            tracing::info!(
                "weight [{outputs}, {inputs}] has too many outliers for bf12; steps of one and two rows read all weights as bf16"
            );
            self.refused_bf12.store(true, Ordering::Relaxed);
            return Ok(0);
        };
        let bytes = bf12.bytes();
        // Never set before: weights are loaded one after the other.
        let _ = weight.bf12.set(bf12);
        self.choose_bf12(weight, shape, most_rows)?;
        Ok(bytes)
    }

    /// True when the megakernel reads bf12 weights: one in another format would end the launch before and after it, which takes
    /// longer than bf12 saves.
    pub(crate) fn megakernel_reads_bf12(&self) -> bool {
        !self.refused_bf12.load(Ordering::Relaxed)
    }

    fn encode_bf12_buffer(
        &self,
        weight: &Buffer,
        (outputs, inputs): (usize, usize),
    ) -> Result<Option<Buffer>, DeviceError> {
        let layout = Layout::new((outputs, inputs));
        let room = |bytes| allocate(&self.context, bytes, "bf12 weights");
        let (bf12, counts) = (
            room(layout.bytes())?,
            room(size_of::<u32>() * layout.blocks)?,
        );
        let places = layout.at(&bf12);
        let params = EncodeParams {
            weight: weight.address() as u64,
            units: places.units,
            headers: places.headers,
            outliers: places.outliers,
            counts: counts.address() as u64,
            rows: outputs as u32,
            inputs: inputs as u32,
        };
        let grid = Grid::line(layout.units.div_ceil(UNITS_A_BLOCK), 32 * UNITS_A_BLOCK);
        // SAFETY: the struct of the kernel; the weight has that many rows, and there is room for its units and their outliers.
        unsafe { launch(&self.context, self.own().bf12().encode, grid, &params) }?;
        let counts = read(&self.context, &counts, "encoding bf12 weights")?;
        let mut counts = counts
            .as_chunks()
            .0
            .iter()
            .map(|&count| u32::from_ne_bytes(count));
        let fits = counts.all(|count| count as usize <= MAX_OUTLIERS);
        Ok(fits.then_some(bf12))
    }
}

#[cfg(test)]
mod tests {
    use super::bf12_bytes;

    #[test]
    fn a_bf12_weight_takes_little_more_than_twelve_bits() {
        let bits =
            |shape: (usize, usize)| 8.0 * bf12_bytes(shape) as f64 / (shape.0 * shape.1) as f64;
        assert!((12.3..12.45).contains(&bits((17920, 1536))));
        assert!((12.3..12.35).contains(&bits((4096, 12288))));
        // The last segment of inputs is padded.
        assert!((24.0..27.0).contains(&bits((64, 64))));
    }

    #[test]
    fn shapes_that_units_do_not_fill_are_not_encoded() {
        for shape in [(48, 128), (8, 128), (64, 100), (64, 70_000)] {
            assert_eq!(bf12_bytes(shape), 0, "{shape:?}");
        }
    }
}
