//! Our GEMM kernels for up to 256 rows, which stream weights at memory bandwidth.

use ops::DeviceError;

use super::bf12::Bf12Kernels;
use super::cluster::{Cluster, ClusterKernels};
use super::epilogue::{Epilogue, EpilogueParams};
use super::wide::WideKernels;
use super::{DeviceWeight, Gemm};
use crate::context::Context;
use crate::launch::{Grid, MOST_ROOM, launch};
use crate::lower::DeferredScale;
use crate::module::{Function, Modules};
use crate::tensor_map::{TensorMap, TiledMatrix};

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
    pub(super) epilogue: EpilogueParams,
}

/// One of our kernels, and how it is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    Few(Few),
    Cluster(Cluster),
    /// Reads the bf12 weight.
    Bf12(Cluster),
    /// Stores results or gates; takes no deferred norm and adds no residual.
    Wide,
}

/// A kernel for up to eight rows; a block takes `groups` groups of sixteen outputs, with all of K.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Few {
    groups: usize,
    blocks: usize,
}

impl Few {
    /// Its index in the list of functions.
    fn number(self) -> usize {
        let known = GROUPS.iter().position(|&known| known == self.groups);
        known.expect("variants come from the list")
    }

    /// Outputs of a TMA tile of the weight.
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

/// A matrix as one GEMM reads it: address, rows, elements from one row to the next, columns.
struct Matrix {
    address: u64,
    rows: usize,
    stride: usize,
    cols: usize,
}

impl Matrix {
    /// TMA tiles of some rows, with all slices of a stage.
    fn map(&self, few: Few, rows: usize) -> Result<TensorMap, DeviceError> {
        let (slice, stride) = (TensorMap::SLICE, 2 * self.stride as u64);
        TensorMap::new(&TiledMatrix {
            address: self.address,
            sizes: &[u64::from(slice), self.rows as u64, self.slices()],
            strides: &[stride, 2 * u64::from(slice)],
            shape: &[slice, rows as u32, few.slices()],
        })
    }

    /// The same of gates and up rows: eight rows of each in turn.
    fn gated_map(&self, few: Few, rows: usize) -> Result<TensorMap, DeviceError> {
        let (slice, stride) = (TensorMap::SLICE, 2 * self.stride as u64);
        let (all, half) = (self.rows as u64 / 16, self.rows as u64 / 2 * stride);
        TensorMap::new(&TiledMatrix {
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
pub(crate) struct GemmKernels {
    functions: [[Function; GROUPS.len()]; Epilogue::NAMES.len()],
    clusters: ClusterKernels,
    wide: WideKernels,
    bf12: Bf12Kernels,
    units: usize,
}

impl GemmKernels {
    pub(crate) fn new(modules: &Modules, units: usize) -> Result<Self, DeviceError> {
        let mut functions = [[modules.find("linear_any")?; _]; _];
        for (functions, name) in functions.iter_mut().zip(Epilogue::NAMES) {
            for (function, groups) in functions.iter_mut().zip(GROUPS) {
                *function = modules.find_with_shared(&format!("{name}_few_{groups}"), MOST_ROOM)?;
            }
        }
        Ok(Self {
            functions,
            clusters: ClusterKernels::find(modules, units)?,
            wide: WideKernels::find(modules, units)?,
            bf12: Bf12Kernels::find(modules, units)?,
            units,
        })
    }

    /// Candidates for a GEMM; none where threads cannot take its results by fours.
    pub(crate) fn variants(&self, gemm: &Gemm<'_>) -> Vec<Variant> {
        let (rows, outputs, inputs) = (gemm.x.rows(), gemm.out.cols(), gemm.x.cols());
        if !gemm.results_are_quads() {
            return Vec::new();
        }
        if rows > FEW || !inputs.is_multiple_of(TensorMap::SLICE as usize) {
            let clusters = self.clusters.variants(rows, (outputs, inputs));
            let wide = self.wide.take(gemm).then_some(Variant::Wide);
            return clusters
                .into_iter()
                .map(Variant::Cluster)
                .chain(wide)
                .collect();
        }
        self.variants_for_few(outputs).map(Variant::Few).collect()
    }

    /// The candidate for a short GEMM.
    pub(super) fn short(&self, gemm: &Gemm<'_>) -> Option<Variant> {
        let shape = (gemm.out.cols(), gemm.x.cols());
        let cluster = self.clusters.short(gemm.x.rows(), shape);
        cluster.map(Variant::Cluster)
    }

    /// Those that read the weight as bf12.
    pub(super) fn bf12_variants(&self, gemm: &Gemm<'_>) -> Vec<Variant> {
        let clusters = self.bf12.variants(gemm);
        clusters.into_iter().map(Variant::Bf12).collect()
    }

    pub(super) fn bf12(&self) -> &Bf12Kernels {
        &self.bf12
    }

    /// Shapes with the fewest groups of outputs on the busiest SM.
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

    /// Enqueues a GEMM; the weight has a tensor map, and rows of `x` are 16-byte aligned.
    pub(crate) fn run(
        &self,
        context: &Context,
        variant: Variant,
        gemm: &Gemm<'_>,
        weight: &DeviceWeight,
        how: (Option<DeferredScale<'_>>, &Epilogue<'_>),
    ) -> Result<(), DeviceError> {
        match variant {
            Variant::Few(few) => self.run_few(context, few, gemm, weight, how),
            Variant::Cluster(cluster) => self.clusters.run(context, cluster, gemm, weight, how),
            Variant::Bf12(cluster) => {
                let bf12 = weight.bf12_buffer();
                self.bf12.run(context, cluster, gemm, bf12, how)
            }
            Variant::Wide => self.wide.run(context, gemm, weight, how.1),
        }
    }

    fn run_few(
        &self,
        context: &Context,
        few: Few,
        gemm: &Gemm<'_>,
        weight: &DeviceWeight,
        (norm, epilogue): (Option<DeferredScale<'_>>, &Epilogue<'_>),
    ) -> Result<(), DeviceError> {
        let x = &gemm.x;
        let outputs = epilogue.outputs(gemm);
        let matrix = Matrix {
            address: weight.buffer.address() as u64,
            rows: outputs,
            stride: x.cols(),
            cols: x.cols(),
        };
        let map = if epilogue.is_gated() {
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
            epilogue: EpilogueParams::new(gemm, (outputs, stages), norm, epilogue),
        };
        let grid = Grid {
            blocks: (few.blocks, 1, 1),
            threads: THREADS,
            shared: MOST_ROOM,
        };
        let function = self.functions[epilogue.number()][few.number()];
        // SAFETY: the struct of the kernel; addresses and strides come from checked views.
        unsafe { launch(context, function, grid, &params) }
    }
}
