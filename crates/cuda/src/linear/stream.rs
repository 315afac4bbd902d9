//! Products with few rows, at the speed of memory.

use ops::{DeviceError, LateNorm};
use tensor::Buffer;

use super::surroundings::{Ending, Surroundings};
use super::{DeviceWeight, Product};
use crate::context::Context;
use crate::launch::{Grid, HALF_ROOM, MOST_ROOM, launch};
use crate::memory::allocate;
use crate::module::{Function, Modules};
use crate::tensor_map::{Boxes, TensorMap};

/// Outputs of a tile.
const TILE: usize = 64;
/// What "few rows" are.
const FEW: usize = 8;
/// Groups of sixteen outputs that a block takes where rows are few.
const GROUPS: [usize; 10] = [1, 2, 3, 4, 6, 8, 9, 12, 14, 16];
/// Rows of x that the compiled shapes for more of them take.
const ROWS: [usize; 3] = [16, 32, 64];
/// Kernels an ending.
const KERNELS: usize = GROUPS.len() + ROWS.len();
const MOST_ROWS: usize = ROWS[ROWS.len() - 1];
/// Tiles whose arrivals are counted.
const MOST_TILES: usize = 1 << 16;

#[derive(Clone, Copy)]
#[repr(C, align(128))]
struct LinearParams {
    weight: TensorMap,
    x: TensorMap,
    surroundings: Surroundings,
}

/// Names of the kernels, by ending.
const NAMES: [&str; 3] = ["linear_stream", "linear_gated", "linear_onward"];

/// One compiled kernel and the size of its grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    kernel: Kernel,
    /// Blocks; for many rows, a multiple of the tiles or a divisor leaves tiles whole.
    blocks: usize,
}

/// The compiled shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    /// Up to eight rows; a block takes so many groups of sixteen outputs, with all inputs.
    Few { groups: usize },
    /// Up to so many rows; blocks share tiles.
    Many { rows: usize },
}

impl Kernel {
    /// Its place in the list of functions.
    fn number(self) -> usize {
        let known = match self {
            Self::Few { groups } => GROUPS.iter().position(|&known| known == groups),
            Self::Many { rows } => {
                let place = ROWS.iter().position(|&known| known == rows);
                place.map(|place| GROUPS.len() + place)
            }
        };
        known.expect("variants come from the lists")
    }

    fn name(self, ending: &str) -> String {
        match self {
            Self::Few { groups } => format!("{ending}_few_{groups}"),
            Self::Many { rows } => format!("{ending}_{rows}"),
        }
    }

    /// Rows of a box of x.
    fn rows(self) -> usize {
        match self {
            Self::Few { .. } => FEW,
            Self::Many { rows } => rows,
        }
    }

    /// Outputs of a box of the weight.
    fn outputs(self) -> usize {
        match self {
            Self::Few { groups } => 16 * groups,
            Self::Many { .. } => TILE,
        }
    }

    /// Inputs of a stage.
    fn inputs(self) -> usize {
        match self {
            Self::Few { groups: 8.. } => 64,
            Self::Few { groups: 4.. } | Self::Many { .. } => 128,
            Self::Few { groups: 2.. } => 256,
            Self::Few { .. } => 512,
        }
    }

    fn slices(self) -> u32 {
        (self.inputs() / TensorMap::SLICE as usize) as u32
    }

    /// Shared memory of a block.
    fn room(self) -> usize {
        match self {
            Self::Few { .. } => MOST_ROOM,
            Self::Many { .. } => HALF_ROOM,
        }
    }

    fn threads(self) -> usize {
        match self {
            Self::Few { .. } => 320,
            Self::Many { .. } => 256,
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        let few = GROUPS.into_iter().map(|groups| Self::Few { groups });
        few.chain(ROWS.into_iter().map(|rows| Self::Many { rows }))
    }
}

/// A matrix as one product takes it: address, rows, elements from one row to the next, columns.
struct Matrix {
    address: u64,
    rows: usize,
    stride: usize,
    cols: usize,
}

impl Matrix {
    /// Boxes of some rows; those of kernels for few rows hold all slices of a stage.
    fn map(&self, kernel: Kernel, rows: usize) -> Result<TensorMap, DeviceError> {
        let stride = 2 * self.stride as u64;
        let (slice, rows) = (TensorMap::SLICE, rows as u32);
        match kernel {
            Kernel::Few { .. } => TensorMap::new(&Boxes {
                address: self.address,
                sizes: &[u64::from(slice), self.rows as u64, self.slices()],
                strides: &[stride, 2 * u64::from(slice)],
                shape: &[slice, rows, kernel.slices()],
            }),
            Kernel::Many { .. } => TensorMap::new(&Boxes {
                address: self.address,
                sizes: &[self.cols as u64, self.rows as u64],
                strides: &[stride],
                shape: &[slice, rows],
            }),
        }
    }

    /// The same of gates and their factors: eight rows of each in turn.
    fn gated_map(&self, kernel: Kernel, rows: usize) -> Result<TensorMap, DeviceError> {
        let stride = 2 * self.stride as u64;
        let (slice, groups) = (TensorMap::SLICE, rows as u32 / 16);
        let (all, half) = (self.rows as u64 / 16, self.rows as u64 / 2 * stride);
        match kernel {
            Kernel::Few { .. } => TensorMap::new(&Boxes {
                address: self.address,
                sizes: &[u64::from(slice), 8, 2, all, self.slices()],
                strides: &[stride, half, 8 * stride, 2 * u64::from(slice)],
                shape: &[slice, 8, 2, groups, kernel.slices()],
            }),
            Kernel::Many { .. } => TensorMap::new(&Boxes {
                address: self.address,
                sizes: &[self.cols as u64, 8, 2, all],
                strides: &[stride, half, 8 * stride],
                shape: &[slice, 8, 2, groups],
            }),
        }
    }

    fn slices(&self) -> u64 {
        (self.cols / TensorMap::SLICE as usize) as u64
    }
}

/// The kernels and what they share.
pub(crate) struct Stream {
    functions: [[Function; KERNELS]; NAMES.len()],
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
        let mut functions = [[modules.find("linear_any")?; KERNELS]; NAMES.len()];
        for (functions, name) in functions.iter_mut().zip(NAMES) {
            for (function, kernel) in functions.iter_mut().zip(Kernel::all()) {
                *function = modules.find_with_shared(&kernel.name(name), kernel.room())?;
            }
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

    /// Ways to compute a product of so many rows.
    pub(crate) fn variants(&self, rows: usize, (outputs, inputs): (usize, usize)) -> Vec<Variant> {
        let many = self.variants_for_many(rows, outputs);
        if rows > FEW || !inputs.is_multiple_of(TensorMap::SLICE as usize) {
            return many;
        }
        self.variants_for_few(outputs).chain(many).collect()
    }

    /// The fewest groups of outputs for the multiprocessor that has most, at once or one after the other.
    fn variants_for_few(&self, outputs: usize) -> impl Iterator<Item = Variant> {
        let (all, units) = (outputs.div_ceil(16), self.units);
        let each = move |groups: usize| all.div_ceil(groups).div_ceil(units) * groups;
        let fewest = GROUPS.into_iter().map(each).min();
        let best = GROUPS
            .into_iter()
            .filter(move |&groups| Some(each(groups)) == fewest);
        best.map(move |groups| Variant {
            kernel: Kernel::Few { groups },
            blocks: all.div_ceil(groups).min(units),
        })
    }

    /// All multiprocessors in equal shares, once or twice, or every tile whole or in a few parts.
    fn variants_for_many(&self, rows: usize, outputs: usize) -> Vec<Variant> {
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
        let kernel = Kernel::Many { rows };
        blocks.map(|blocks| Variant { kernel, blocks }).collect()
    }

    /// Enqueues a product; the weight has a map, and rows of `x` are made of 16-byte pieces.
    pub(crate) fn run(
        &self,
        context: &Context,
        variant: Variant,
        product: &Product<'_>,
        weight: &DeviceWeight,
        (norm, ending): (Option<LateNorm<'_>>, &Ending<'_>),
    ) -> Result<(), DeviceError> {
        let x = &product.x;
        let gated = matches!(ending, Ending::Gated { .. });
        let outputs = product.out.cols() * if gated { 2 } else { 1 };
        let kernel = variant.kernel;
        let matrix = Matrix {
            address: weight.buffer.address() as u64,
            rows: outputs,
            stride: x.cols(),
            cols: x.cols(),
        };
        let map = if gated {
            matrix.gated_map(kernel, kernel.outputs())?
        } else {
            matrix.map(kernel, kernel.outputs())?
        };
        let inputs = Matrix {
            address: x.address() as u64,
            rows: x.rows(),
            stride: x.stride(),
            cols: x.cols(),
        };
        let sums = [&self.partials, &self.arrivals].map(|buffer| buffer.address() as u64);
        let stages = x.cols().div_ceil(kernel.inputs());
        let params = LinearParams {
            weight: map,
            x: inputs.map(kernel, kernel.rows())?,
            surroundings: Surroundings::new(product, (outputs, stages), sums, norm, ending),
        };
        let grid = Grid {
            blocks: (variant.blocks, 1, 1),
            threads: kernel.threads(),
            shared: kernel.room(),
        };
        // SAFETY: the struct of the kernel; addresses and strides come from checked views.
        unsafe {
            launch(
                context,
                self.functions[ending.number()][kernel.number()],
                grid,
                &params,
            )
        }
    }
}
