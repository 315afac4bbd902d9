//! Products with few rows, at the speed of memory.

use ops::{DeviceError, LateNorm};

use super::folded::Folds;
use super::surroundings::{Ending, Surroundings};
use super::team::{Team, Teams};
use super::wide::Wides;
use super::{DeviceWeight, Product};
use crate::context::Context;
use crate::launch::{Grid, MOST_ROOM, launch};
use crate::module::{Function, Modules};
use crate::tensor_map::{Boxes, TensorMap};

/// What "few rows" are.
const FEW: usize = 8;
/// Groups of sixteen outputs that a block takes where rows are few.
const GROUPS: [usize; 10] = [1, 2, 3, 4, 6, 8, 9, 12, 14, 16];
const THREADS: usize = 320;

#[derive(Clone, Copy)]
#[repr(C, align(128))]
pub(super) struct LinearParams {
    pub(super) weight: TensorMap,
    pub(super) x: TensorMap,
    pub(super) surroundings: Surroundings,
}

/// One of our kernels, and how it is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    Few(Few),
    Team(Team),
    /// Reads the folded weight.
    Folded(Team),
    /// Knows results and gates alone: it completes no norm and ends no layer.
    Wide,
}

/// A kernel for up to eight rows; a block takes so many groups of sixteen outputs, with all inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Few {
    groups: usize,
    blocks: usize,
}

impl Few {
    /// Its place in the list of functions.
    fn number(self) -> usize {
        let known = GROUPS.iter().position(|&known| known == self.groups);
        known.expect("variants come from the list")
    }

    /// Outputs of a box of the weight.
    fn outputs(self) -> usize {
        16 * self.groups
    }

    /// Inputs of a stage.
    fn inputs(self) -> usize {
        match self.groups {
            8.. => 64,
            4.. => 128,
            2.. => 256,
            _ => 512,
        }
    }

    fn slices(self) -> u32 {
        (self.inputs() / TensorMap::SLICE as usize) as u32
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
    /// Boxes of some rows, with all slices of a stage.
    fn map(&self, few: Few, rows: usize) -> Result<TensorMap, DeviceError> {
        let (slice, stride) = (TensorMap::SLICE, 2 * self.stride as u64);
        TensorMap::new(&Boxes {
            address: self.address,
            sizes: &[u64::from(slice), self.rows as u64, self.slices()],
            strides: &[stride, 2 * u64::from(slice)],
            shape: &[slice, rows as u32, few.slices()],
        })
    }

    /// The same of gates and their factors: eight rows of each in turn.
    fn gated_map(&self, few: Few, rows: usize) -> Result<TensorMap, DeviceError> {
        let (slice, stride) = (TensorMap::SLICE, 2 * self.stride as u64);
        let (all, half) = (self.rows as u64 / 16, self.rows as u64 / 2 * stride);
        TensorMap::new(&Boxes {
            address: self.address,
            sizes: &[u64::from(slice), 8, 2, all, self.slices()],
            strides: &[stride, half, 8 * stride, 2 * u64::from(slice)],
            shape: &[slice, 8, 2, rows as u32 / 16, few.slices()],
        })
    }

    fn slices(&self) -> u64 {
        (self.cols / TensorMap::SLICE as usize) as u64
    }
}

/// The kernels.
pub(crate) struct Stream {
    functions: [[Function; GROUPS.len()]; Ending::NAMES.len()],
    teams: Teams,
    wides: Wides,
    folds: Folds,
    units: usize,
}

impl Stream {
    pub(crate) fn new(modules: &Modules, units: usize) -> Result<Self, DeviceError> {
        let mut functions = [[modules.find("linear_any")?; _]; _];
        for (functions, name) in functions.iter_mut().zip(Ending::NAMES) {
            for (function, groups) in functions.iter_mut().zip(GROUPS) {
                *function = modules.find_with_shared(&format!("{name}_few_{groups}"), MOST_ROOM)?;
            }
        }
        Ok(Self {
            functions,
            teams: Teams::find(modules, units)?,
            wides: Wides::find(modules, units)?,
            folds: Folds::find(modules, units)?,
            units,
        })
    }

    /// Ways to compute a product; none where threads cannot take its results by fours.
    pub(crate) fn variants(&self, product: &Product<'_>) -> Vec<Variant> {
        let (rows, outputs, inputs) = (product.x.rows(), product.out.cols(), product.x.cols());
        if !product.results_are_quads() {
            return Vec::new();
        }
        if rows > FEW || !inputs.is_multiple_of(TensorMap::SLICE as usize) {
            let teams = self.teams.variants(rows, (outputs, inputs));
            let wide = self.wides.take(product).then_some(Variant::Wide);
            return teams.into_iter().map(Variant::Team).chain(wide).collect();
        }
        self.variants_for_few(outputs).map(Variant::Few).collect()
    }

    /// The way for a product that is short.
    pub(super) fn short(&self, product: &Product<'_>) -> Option<Variant> {
        let shape = (product.out.cols(), product.x.cols());
        let team = self.teams.short(product.x.rows(), shape);
        team.map(Variant::Team)
    }

    /// Those that read the weight folded.
    pub(super) fn folded_variants(&self, product: &Product<'_>) -> Vec<Variant> {
        let teams = self.folds.variants(product);
        teams.into_iter().map(Variant::Folded).collect()
    }

    pub(super) fn folds(&self) -> &Folds {
        &self.folds
    }

    /// The fewest groups of outputs for the multiprocessor that has most, at once or one after the other.
    fn variants_for_few(&self, outputs: usize) -> impl Iterator<Item = Few> {
        let (all, units) = (outputs.div_ceil(16), self.units);
        let each = move |groups: usize| all.div_ceil(groups).div_ceil(units) * groups;
        let fewest = GROUPS.into_iter().map(each).min();
        let best = GROUPS
            .into_iter()
            .filter(move |&groups| Some(each(groups)) == fewest);
        best.map(move |groups| Few {
            groups,
            blocks: all.div_ceil(groups).min(units),
        })
    }

    /// Enqueues a product; the weight has a map, and rows of `x` are made of 16-byte pieces.
    pub(crate) fn run(
        &self,
        context: &Context,
        variant: Variant,
        product: &Product<'_>,
        weight: &DeviceWeight,
        how: (Option<LateNorm<'_>>, &Ending<'_>),
    ) -> Result<(), DeviceError> {
        match variant {
            Variant::Few(few) => self.run_few(context, few, product, weight, how),
            Variant::Team(team) => self.teams.run(context, team, product, weight, how),
            Variant::Folded(team) => {
                let folded = weight.folded_buffer();
                self.folds.run(context, team, product, folded, how)
            }
            Variant::Wide => self.wides.run(context, product, weight, how.1),
        }
    }

    fn run_few(
        &self,
        context: &Context,
        few: Few,
        product: &Product<'_>,
        weight: &DeviceWeight,
        (norm, ending): (Option<LateNorm<'_>>, &Ending<'_>),
    ) -> Result<(), DeviceError> {
        let x = &product.x;
        let outputs = ending.outputs(product);
        let matrix = Matrix {
            address: weight.buffer.address() as u64,
            rows: outputs,
            stride: x.cols(),
            cols: x.cols(),
        };
        let map = if ending.is_gated() {
            matrix.gated_map(few, few.outputs())?
        } else {
            matrix.map(few, few.outputs())?
        };
        let inputs = Matrix {
            address: x.address() as u64,
            rows: x.rows(),
            stride: x.stride(),
            cols: x.cols(),
        };
        let stages = x.cols().div_ceil(few.inputs());
        let params = LinearParams {
            weight: map,
            x: inputs.map(few, FEW)?,
            surroundings: Surroundings::new(product, (outputs, stages), norm, ending),
        };
        let grid = Grid {
            blocks: (few.blocks, 1, 1),
            threads: THREADS,
            shared: MOST_ROOM,
        };
        let function = self.functions[ending.number()][few.number()];
        // SAFETY: the struct of the kernel; addresses and strides come from checked views.
        unsafe { launch(context, function, grid, &params) }
    }
}
