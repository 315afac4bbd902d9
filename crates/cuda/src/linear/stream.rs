//! Products with few rows, at the speed of memory.

use ops::DeviceError;
use tensor::{Buffer, DType, View};

use super::Product;
use crate::context::Context;
use crate::launch::{Grid, MOST_ROOM, launch};
use crate::memory::allocate;
use crate::module::{Function, Modules};
use crate::tensor_map::{Boxes, TensorMap};

/// Inputs of a stage.
const STAGE: usize = 128;
/// The most rows that a product may have.
pub(crate) const MOST_ROWS: usize = 64;
/// Outputs of the narrowest and the widest tile.
const TILES: [usize; 2] = [64, 128];
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

/// One compiled shape of the kernel: how many rows of x it takes, and how many warpgroups share a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    rows: usize,
    groups: usize,
    /// Blocks of the grid; fewer than multiprocessors leave tiles whole.
    blocks: usize,
}

const VARIANTS: [(usize, usize); 6] = [(8, 1), (16, 1), (32, 1), (32, 2), (64, 1), (64, 2)];

/// The maps of a weight, one for each width of tile; none when its rows are not made of 16-byte pieces.
pub(crate) type WeightMaps = Option<[TensorMap; 2]>;

/// Describes a weight.
pub(crate) fn weight_maps(
    address: u64,
    outputs: usize,
    inputs: usize,
) -> Result<WeightMaps, DeviceError> {
    if !inputs.is_multiple_of(8) {
        return Ok(None);
    }
    let map = |tile: usize| {
        TensorMap::new(&Boxes {
            address,
            sizes: &[inputs as u64, outputs as u64],
            strides: &[2 * inputs as u64],
            shape: &[TensorMap::SLICE, tile as u32],
        })
    };
    Ok(Some([map(TILES[0])?, map(TILES[1])?]))
}

/// The kernels and what they share.
pub(crate) struct Stream {
    functions: [Function; VARIANTS.len()],
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
        let mut functions = [modules.find("linear_any")?; VARIANTS.len()];
        for (function, (rows, groups)) in functions.iter_mut().zip(VARIANTS) {
            *function =
                modules.find_with_shared(&format!("linear_stream_{rows}_{groups}"), MOST_ROOM)?;
        }
        Ok(Self {
            functions,
            partials: allocate(
                context,
                2 * units * TILES[1] * MOST_ROWS * 4,
                "sums of products",
            )?,
            arrivals: allocate(context, 2 * MOST_TILES * 4, "arrivals of products")?,
            units,
        })
    }

    /// Ways to compute a product of so many rows: all multiprocessors in equal shares, or each tile whole or in a few
    /// parts.
    pub(crate) fn variants(&self, rows: usize, outputs: usize) -> Vec<Variant> {
        let most = VARIANTS
            .iter()
            .map(|variant| variant.0)
            .find(|&most| most >= rows);
        let fitting = VARIANTS.iter().filter(|variant| Some(variant.0) == most);
        let mut variants = Vec::new();
        for &(rows, groups) in fitting {
            let tiles = outputs.div_ceil(64 * groups);
            if tiles > MOST_TILES {
                continue;
            }
            let even = if tiles > self.units {
                vec![tiles.div_ceil(tiles.div_ceil(self.units))]
            } else {
                (1..=4)
                    .map(|parts| parts * tiles)
                    .filter(|&blocks| blocks <= self.units)
                    .collect()
            };
            let blocks = std::iter::once(self.units).chain(even);
            variants.extend(blocks.map(|blocks| Variant {
                rows,
                groups,
                blocks,
            }));
        }
        variants
    }

    /// Enqueues a product; `maps` are the weight's, and rows of `x` are made of 16-byte pieces.
    pub(crate) fn run(
        &self,
        context: &Context,
        variant: Variant,
        product: &Product<'_>,
        maps: &[TensorMap; 2],
    ) -> Result<(), DeviceError> {
        let x = &product.x;
        let params = LinearParams {
            weight: maps[variant.groups - 1],
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
        let which = VARIANTS
            .iter()
            .position(|&v| v == (variant.rows, variant.groups));
        let function = self.functions[which.expect("variants come from the list")];
        let grid = Grid {
            blocks: (variant.blocks, 1, 1),
            threads: 128 * variant.groups + 32,
            shared: MOST_ROOM,
        };
        // SAFETY: the struct of the kernel; addresses and strides come from checked views.
        unsafe { launch(context, function, grid, &params) }
    }
}
