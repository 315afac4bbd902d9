//! Dense GEMMs: cuBLASLt, our own kernels for few rows, and a plain one for what neither takes.
//!
//! The candidate for a shape is chosen when its weight is loaded, by timing all of them.

mod bf12;
mod blas;
mod choose;
mod cluster;
mod epilogue;
mod float8;
mod fused;
mod gates;
mod invent;
mod kernels;
mod shape;
mod split_k;
mod timing;
mod wide;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ops::{DeviceError, Linear};
use tensor::{Buffer, DType, View, ViewMut};

use crate::card::Generation;
use crate::context::Context;
use crate::launch::{Grid, launch};
use crate::module::{Function, Modules};
use crate::options::GemmChoice;
use crate::tensor_map::{TensorMap, TiledMatrix};

use bf12::Bf12Choice;
use blas::{Algorithm, Blas, Factors};
use float8::Float8Kernels;
use kernels::GemmKernels;
use shape::{MOST_WIDE, Shape};
use split_k::SplitK;

pub(crate) use bf12::{
    Bf12Addresses, HEADER_BYTES, MOST_ROWS, UNIT_BYTES, UNIT_INPUTS, UNIT_ROWS, bf12_bytes,
};
pub(crate) use epilogue::{AddNorm, Epilogue, EpilogueParams, StageOutput};
pub(crate) use float8::{Float8Weight, Lacking, PackedRows, SEGMENT, ScaleGrid, Scales, Source};
pub(crate) use kernels::Variant;

/// One out = x · weightᵀ (+ bias).
pub(crate) struct Gemm<'a> {
    pub(crate) x: View<'a>,
    pub(crate) bias: Option<View<'a>>,
    pub(crate) out: ViewMut<'a>,
}

impl<'a> From<Linear<'a>> for Gemm<'a> {
    fn from(op: Linear<'a>) -> Self {
        Self {
            x: op.x,
            bias: op.bias,
            out: op.out,
        }
    }
}

impl Gemm<'_> {
    pub(crate) fn rows_are_aligned(&self) -> bool {
        (self.x.address() as usize).is_multiple_of(16)
            && self.x.stride().is_multiple_of(8)
            && self.x.cols().is_multiple_of(8)
    }

    /// TMA tiles of the inputs, that many rows each.
    fn row_tiles(&self, rows: usize) -> Result<TensorMap, DeviceError> {
        TensorMap::new(&TiledMatrix {
            address: self.x.address() as u64,
            sizes: &[self.x.cols() as u64, self.x.rows() as u64],
            strides: &[2 * self.x.stride() as u64],
            shape: &[TensorMap::SLICE, rows as u32],
        })
    }

    /// Zero where there is none.
    fn bias_address(&self) -> u64 {
        let address = |bias: &View<'_>| bias.address() as u64;
        self.bias.as_ref().map_or(0, address)
    }

    /// True when results are 16-byte aligned and their bias is 8-byte aligned.
    fn results_are_aligned(&self) -> bool {
        (self.out.address() as usize).is_multiple_of(16)
            && (self.out.stride() * self.out.dtype().size()).is_multiple_of(16)
            && self.bias_address().is_multiple_of(8)
    }

    /// True when our kernels can take results and their bias by fours.
    pub(crate) fn results_are_quads(&self) -> bool {
        self.results_are_aligned() && self.out.cols().is_multiple_of(4)
    }

    /// Some rows of it.
    fn rows(&mut self, rows: Range<usize>) -> Gemm<'_> {
        Gemm {
            x: self.x.row_range(rows.clone()),
            bias: self.bias,
            out: self.out.reborrow().row_range(rows),
        }
    }
}

/// A weight as this device holds it.
pub(crate) struct DeviceWeight {
    pub(crate) buffer: Buffer,
    /// True when rows are 16-byte aligned, as our kernels take them.
    aligned: bool,
    /// The same weight as bf12.
    bf12: OnceLock<Buffer>,
}

impl DeviceWeight {
    fn new(buffer: Buffer, aligned: bool) -> Self {
        Self {
            buffer,
            aligned,
            bf12: OnceLock::new(),
        }
    }

    /// The bf12 weight; asked for only by candidates that read it.
    fn bf12_buffer(&self) -> &Buffer {
        let bf12 = self.bf12.get();
        bf12.expect("bf12 candidates are chosen for bf12 weights only")
    }
}

/// How a GEMM is computed, and the times behind that choice.
#[derive(Clone, Copy)]
struct Choice {
    candidate: Candidate,
    /// The best shape of our kernel.
    variant: Option<Variant>,
    /// What is taken instead where the weight is bf12; none before such a weight was timed.
    bf12: Option<Bf12Choice>,
    /// True when our kernel is preferred for gates, where that was timed.
    gates: Option<bool>,
    /// cuBLASLt's algorithm for split-K by two, where that is faster before a norm.
    split_k: Option<Algorithm>,
    /// Milliseconds of our kernel with fused neighbours, of ours, and of cuBLASLt's, the last two beside a small kernel; infinite
    /// where there is none.
    fused: f32,
    own: f32,
    blas: f32,
}

impl Choice {
    /// What is taken instead where this weight is bf12.
    fn bf12_for(&self, weight: &DeviceWeight) -> Bf12Choice {
        weight.bf12.get().and(self.bf12).unwrap_or_default()
    }

    fn candidate_for(&self, weight: &DeviceWeight) -> Candidate {
        self.bf12_for(weight)
            .alone
            .map_or(self.candidate, Candidate::Own)
    }
}

#[derive(Clone, Copy)]
enum Candidate {
    Own(Variant),
    Blas(Algorithm),
}

#[derive(Clone, Copy)]
#[repr(C)]
struct AnyParams {
    x: u64,
    weight: u64,
    bias: u64,
    out: u64,
    x_stride: u32,
    out_stride: u32,
    inputs: u32,
    outputs: u32,
    wide: u32,
}

/// All GEMM candidates, and which is taken when.
pub(crate) struct Gemms {
    context: Arc<Context>,
    blas: Blas,
    split_k: SplitK,
    /// Kernels with Hopper's instructions; without them GEMMs are cuBLASLt's.
    own: Option<GemmKernels>,
    any: Function,
    float8: Option<Float8Kernels>,
    /// Copies rows; GEMMs are timed beside it.
    neighbour: Function,
    /// Gates what a GEMM gave; gated GEMMs are timed with it.
    activation: Function,
    /// Fills a matrix with random numbers.
    invent: Function,
    choice: GemmChoice,
    chosen: Mutex<BTreeMap<Shape, Choice>>,
    /// Shapes that were not autotuned before their first GEMM.
    unforeseen: AtomicUsize,
    /// True when a weight had too many outliers for bf12.
    refused_bf12: AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gemms {
    pub(crate) fn new(
        context: &Arc<Context>,
        modules: &Modules,
        units: usize,
        choice: GemmChoice,
    ) -> Result<Self, DeviceError> {
        let hopper = modules.generation() == Generation::Hopper;
        let own = hopper
            .then(|| GemmKernels::new(modules, units))
            .transpose()?;
        let float8 = hopper.then(|| Float8Kernels::new(modules, units));
        Ok(Self {
            context: Arc::clone(context),
            blas: Blas::new(context)?,
            split_k: SplitK::new(context, modules, units)?,
            own,
            any: modules.find("linear_any")?,
            float8: float8.transpose()?,
            neighbour: modules.find("gather_rows")?,
            activation: modules.find("gated_activation")?,
            invent: modules.find("invent_weight")?,
            choice,
            chosen: Mutex::default(),
            unforeseen: AtomicUsize::default(),
            refused_bf12: AtomicBool::default(),
        })
    }

    /// Our own kernels; asked for only by candidates of ours.
    fn own(&self) -> &GemmKernels {
        let own = self.own.as_ref();
        own.expect("candidates of our own are chosen where there are kernels for them")
    }

    /// As [`Self::own`], for weights of eight-bit floats, which are loaded only where there are kernels for them.
    fn float8(&self) -> &Float8Kernels {
        let float8 = self.float8.as_ref();
        float8.expect("weights of eight bits are loaded where there are kernels for them")
    }

    /// Candidates of our own for a GEMM.
    fn variants(&self, gemm: &Gemm<'_>) -> Vec<Variant> {
        let variants = self.own.as_ref().map(|own| own.variants(gemm));
        variants.unwrap_or_default()
    }

    /// Our candidate for a short GEMM.
    fn short(&self, gemm: &Gemm<'_>) -> Option<Variant> {
        self.own.as_ref()?.short(gemm)
    }

    /// True when there are kernels for weights of eight-bit floats.
    pub(crate) fn takes_float8(&self) -> bool {
        self.float8.is_some()
    }

    /// True when weights may be kept as bf12 as well.
    pub(crate) fn takes_bf12(&self) -> bool {
        self.own.is_some()
    }

    /// Takes over a weight, `[outputs, inputs]` of bf16, and autotunes its GEMMs of up to `most_rows` rows.
    pub(crate) fn adopt(
        &self,
        buffer: Buffer,
        (outputs, inputs): (usize, usize),
        most_rows: usize,
    ) -> Result<DeviceWeight, DeviceError> {
        let aligned = inputs.is_multiple_of(8);
        let weight = DeviceWeight::new(buffer, aligned);
        if aligned && outputs.is_multiple_of(8) {
            self.choose(&weight, (outputs, inputs), most_rows)?;
        }
        Ok(weight)
    }

    /// Enqueues a GEMM.
    pub(crate) fn run(
        &self,
        gemm: &mut Gemm<'_>,
        weight: &DeviceWeight,
    ) -> Result<(), DeviceError> {
        if !weight.aligned || !gemm.rows_are_aligned() {
            return self.run_any(gemm, weight);
        }
        let rows = gemm.x.rows();
        // Parts of that many rows keep the tensor cores busy by themselves.
        if gemm.out.dtype() == DType::F32 && rows > MOST_WIDE {
            for start in (0..rows).step_by(MOST_WIDE) {
                let mut part = gemm.rows(start..rows.min(start + MOST_WIDE));
                self.run(&mut part, weight)?;
            }
            return Ok(());
        }
        // cuBLASLt wants a bias in the type of the results.
        let wide_bias = gemm.bias.is_some() && gemm.out.dtype() == DType::F32;
        if gemm.results_are_aligned() && !wide_bias {
            let candidate = match self.candidate(gemm, weight)? {
                Candidate::Own(timed) => Candidate::Own(self.short(gemm).unwrap_or(timed)),
                blas @ Candidate::Blas(_) => blas,
            };
            return self.run_candidate(gemm, weight, &candidate);
        }
        match self.variants(gemm).first() {
            Some(&variant) => self.run_candidate(gemm, weight, &Candidate::Own(variant)),
            None => self.run_any(gemm, weight),
        }
    }

    fn run_candidate(
        &self,
        gemm: &Gemm<'_>,
        weight: &DeviceWeight,
        candidate: &Candidate,
    ) -> Result<(), DeviceError> {
        match candidate {
            Candidate::Own(variant) => {
                let plain = (None, &Epilogue::Store);
                self.own().run(&self.context, *variant, gemm, weight, plain)
            }
            Candidate::Blas(algorithm) => {
                let address = weight.buffer.address() as u64;
                self.blas.enqueue(gemm, address, Factors::Plain, algorithm)
            }
        }
    }

    /// The candidate chosen for the shape, or what cuBLASLt suggests for shapes that were not timed.
    fn candidate(&self, gemm: &Gemm<'_>, weight: &DeviceWeight) -> Result<Candidate, DeviceError> {
        let shape = Shape::of(gemm);
        let mut chosen = locked(&self.chosen);
        let tried = chosen.get(&shape).or_else(|| {
            let unbiased = chosen.get(&shape.unbiased());
            unbiased.filter(|choice| matches!(choice.candidate_for(weight), Candidate::Own(_)))
        });
        if let Some(choice) = tried {
            return Ok(choice.candidate_for(weight));
        }
        self.warn_unforeseen(&shape);
        let suggested = self.blas.candidates(gemm, Factors::Plain, 1)?;
        let candidate = match suggested.first() {
            Some(&algorithm) => Candidate::Blas(algorithm),
            None => return Err(shape.impossible()),
        };
        let untried = Choice {
            candidate,
            variant: None,
            bf12: None,
            gates: None,
            split_k: None,
            fused: f32::INFINITY,
            own: f32::INFINITY,
            blas: f32::INFINITY,
        };
        chosen.insert(shape, untried);
        Ok(candidate)
    }

    /// Logged once per shape: its first GEMM takes longer than the next.
    fn warn_unforeseen(&self, shape: &Shape) {
        self.unforeseen.fetch_add(1, Ordering::Relaxed);
        tracing::warn!("GEMM was not autotuned when its weight was loaded: {shape}");
    }

    /// Shapes of GEMMs that came without having been autotuned.
    pub(crate) fn unforeseen(&self) -> usize {
        self.unforeseen.load(Ordering::Relaxed)
    }

    fn run_any(&self, gemm: &Gemm<'_>, weight: &DeviceWeight) -> Result<(), DeviceError> {
        let params = AnyParams {
            x: gemm.x.address() as u64,
            weight: weight.buffer.address() as u64,
            bias: gemm.bias_address(),
            out: gemm.out.address() as u64,
            x_stride: gemm.x.stride() as u32,
            out_stride: gemm.out.stride() as u32,
            inputs: gemm.x.cols() as u32,
            outputs: gemm.out.cols() as u32,
            wide: u32::from(gemm.out.dtype() == DType::F32),
        };
        let grid = Grid::rows(gemm.x.rows(), gemm.out.cols().div_ceil(8), 256);
        // SAFETY: the struct of the kernel; addresses and strides come from checked views.
        unsafe { launch(&self.context, self.any, grid, &params) }
    }

    /// The choice for GEMMs of a weight, one line per row count; for people.
    pub(crate) fn describe(&self, outputs: usize, inputs: usize) -> Vec<String> {
        let chosen = locked(&self.chosen);
        let mine = chosen
            .iter()
            .filter(|(shape, _)| shape.outputs == outputs && shape.inputs == inputs);
        mine.map(|(shape, choice)| {
            let kind = match (shape.wide, shape.bias) {
                (true, _) => "f32",
                (false, true) => "bias",
                (false, false) => "bf16",
            };
            let how = match choice.candidate {
                Candidate::Own(variant) => format!("{variant:?}"),
                Candidate::Blas(_) => "cuBLASLt".into(),
            };
            let [fused, own, blas] = [choice.fused, choice.own, choice.blas].map(|time| 1e3 * time);
            let rows = shape.bucket;
            format!(
                "{rows:5} rows, {kind:4}: fused {fused:8.1} µs, own {own:8.1} µs, cuBLASLt {blas:8.1} µs, {how}, {:?}, gates {:?}, split-K {}, bf12 {:?}",
                choice.variant,
                choice.gates,
                choice.split_k.is_some(),
                choice.bf12.and_then(|bf12| bf12.fused.or(bf12.alone))
            )
        })
        .collect()
    }
}
