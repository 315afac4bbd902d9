//! Products with few rows, at the speed of memory.

use ops::DeviceError;
use tensor::{Buffer, DType, View};

use super::Product;
use crate::context::Context;
use crate::launch::{Grid, HALF_ROOM, launch};
use crate::memory::allocate;
use crate::module::{Function, Modules};
use crate::tensor_map::{Boxes, TensorMap};

/// Inputs of a stage.
const STAGE: usize = 128;
/// Outputs of a tile.
const TILE: usize = 64;
/// Rows of x that the compiled shapes take.
const ROWS: [usize; 4] = [8, 16, 32, 64];
const MOST_ROWS: usize = ROWS[ROWS.len() - 1];
/// Tiles whose arrivals are counted.
const MOST_TILES: usize = 1 << 16;

#[derive(Clone, Copy)]
#[repr(C, align(128))]
struct LinearParams {
    weight: TensorMap,
    x: TensorMap,
    out: u64,
    bias: u64,
    partials: u64,
    arrivals: u64,
    out_stride: u32,
    rows: u32,
    outputs: u32,
    stages: u32,
    wide: u32,
}

/// One compiled shape of the kernel and the size of its grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    /// Rows of x that it takes.
    rows: usize,
    /// Blocks; a multiple of the tiles, or a divisor, leaves tiles whole.
    blocks: usize,
}

/// The map of a weight; none when its rows are not made of 16-byte pieces.
pub(crate) type WeightMap = Option<TensorMap>;

/// Describes a weight.
pub(crate) fn weight_map(
    address: u64,
    outputs: usize,
    inputs: usize,
) -> Result<WeightMap, DeviceError> {
    if !inputs.is_multiple_of(8) {
        return Ok(None);
    }
    let map = TensorMap::new(&Boxes {
        address,
        sizes: &[inputs as u64, outputs as u64],
        strides: &[2 * inputs as u64],
        shape: &[TensorMap::SLICE, TILE as u32],
    })?;
    Ok(Some(map))
}

/// The kernels and what they share.
pub(crate) struct Stream {
    functions: [Function; ROWS.len()],
    partials: Buffer,
    arrivals: Buffer,
    units: usize,
}

impl Stream {
    pub(crate) fn new(
        context: &std::sync::Arc<Context>,
        modules: &Modules,
        units: usize,
    ) -> Result<Self, DeviceError> {
        let mut functions = [modules.find("linear_any")?; ROWS.len()];
        for (function, rows) in functions.iter_mut().zip(ROWS) {
            *function = modules.find_with_shared(&format!("linear_stream_{rows}"), HALF_ROOM)?;
        }
        Ok(Self {
            functions,
            partials: allocate(
                context,
                4 * units * TILE * MOST_ROWS * 4,
                "sums of products",
            )?,
            arrivals: allocate(context, MOST_TILES * 4, "arrivals of products")?,
            units,
        })
    }

    /// Ways to compute a product of so many rows: all multiprocessors in equal shares, once or twice, or every tile whole
    /// or in a few parts.
    pub(crate) fn variants(&self, rows: usize, outputs: usize) -> Vec<Variant> {
        let tiles = outputs.div_ceil(TILE);
        let Some(rows) = ROWS.into_iter().find(|&most| most >= rows) else {
            return Vec::new();
        };
        if tiles > MOST_TILES {
            return Vec::new();
        }
        let most = 2 * self.units;
        let even: Vec<usize> = if tiles > most {
            vec![
                tiles.div_ceil(tiles.div_ceil(most)),
                tiles.div_ceil(tiles.div_ceil(self.units)),
            ]
        } else {
            (1..=6)
                .map(|parts| parts * tiles)
                .filter(|&blocks| blocks <= most)
                .collect()
        };
        let blocks = [self.units, most].into_iter().chain(even);
        blocks.map(|blocks| Variant { rows, blocks }).collect()
    }

    /// Enqueues a product; `map` is the weight's, and rows of `x` are made of 16-byte pieces.
    pub(crate) fn run(
        &self,
        context: &Context,
        variant: Variant,
        product: &Product<'_>,
        map: &TensorMap,
    ) -> Result<(), DeviceError> {
        let x = &product.x;
        let params = LinearParams {
            weight: *map,
            x: TensorMap::new(&Boxes {
                address: x.address() as u64,
                sizes: &[x.cols() as u64, x.rows() as u64],
                strides: &[2 * x.stride() as u64],
                shape: &[TensorMap::SLICE, variant.rows as u32],
            })?,
            out: product.out.address() as u64,
            bias: product
                .bias
                .as_ref()
                .map_or(0, |bias| View::address(bias) as u64),
            partials: self.partials.address() as u64,
            arrivals: self.arrivals.address() as u64,
            out_stride: product.out.stride() as u32,
            rows: x.rows() as u32,
            outputs: product.out.cols() as u32,
            stages: x.cols().div_ceil(STAGE) as u32,
            wide: u32::from(product.out.dtype() == DType::F32),
        };
        let which = ROWS.iter().position(|&rows| rows == variant.rows);
        let function = self.functions[which.expect("variants come from the list")];
        let grid = Grid {
            blocks: (variant.blocks, 1, 1),
            threads: 160,
            shared: HALF_ROOM,
        };
        // SAFETY: the struct of the kernel; addresses and strides come from checked views.
        unsafe { launch(context, function, grid, &params) }
    }
}
