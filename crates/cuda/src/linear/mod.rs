//! Dense products: cuBLASLt, our own kernel for few rows, and a plain one for what neither takes.
//!
//! Which way a product goes is decided when its weight is loaded, by timing all of them.

mod blas;
mod choose;
mod float8;
mod folded;
mod fused;
mod gates;
mod halves;
mod invent;
mod shape;
mod stream;
mod surroundings;
mod team;
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
use crate::options::ProductChoice;
use crate::tensor_map::{Boxes, TensorMap};

use blas::{Algorithm, Blas, Factors};
use float8::Float8Kernels;
use folded::FoldedChoice;
use halves::Halves;
use shape::{MOST_WIDE, Shape};
use stream::Stream;

pub(crate) use float8::{Float8Weight, Lacking, PackedRows, SEGMENT, ScaleGrid, Scales, Source};
pub(crate) use folded::{
    FoldedPlaces, HEAD_BYTES, MOST_ROWS, UNIT_BYTES, UNIT_INPUTS, UNIT_ROWS, folded_bytes,
};
pub(crate) use stream::Variant;
pub(crate) use surroundings::{Ending, Onward, Surroundings, Told};

/// One out = x · weightᵀ (+ bias).
pub(crate) struct Product<'a> {
    pub(crate) x: View<'a>,
    pub(crate) bias: Option<View<'a>>,
    pub(crate) out: ViewMut<'a>,
}

impl<'a> From<Linear<'a>> for Product<'a> {
    fn from(op: Linear<'a>) -> Self {
        Self {
            x: op.x,
            bias: op.bias,
            out: op.out,
        }
    }
}

impl Product<'_> {
    pub(crate) fn rows_are_pieces(&self) -> bool {
        (self.x.address() as usize).is_multiple_of(16)
            && self.x.stride().is_multiple_of(8)
            && self.x.cols().is_multiple_of(8)
    }

    /// The inputs in boxes of so many rows.
    fn row_boxes(&self, rows: usize) -> Result<TensorMap, DeviceError> {
        TensorMap::new(&Boxes {
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

    /// True when results are made of 16-byte pieces, and their bias lies so that it can be read by eight bytes.
    fn results_are_pieces(&self) -> bool {
        (self.out.address() as usize).is_multiple_of(16)
            && (self.out.stride() * self.out.dtype().size()).is_multiple_of(16)
            && self.bias_address().is_multiple_of(8)
    }

    /// True when our kernels can take results and their bias by fours.
    pub(crate) fn results_are_quads(&self) -> bool {
        self.results_are_pieces() && self.out.cols().is_multiple_of(4)
    }

    /// Some rows of it.
    fn rows(&mut self, rows: Range<usize>) -> Product<'_> {
        Product {
            x: self.x.row_range(rows.clone()),
            bias: self.bias,
            out: self.out.reborrow().row_range(rows),
        }
    }
}

/// A weight as this device holds it.
pub(crate) struct DeviceWeight {
    pub(crate) buffer: Buffer,
    /// True when rows are made of 16-byte pieces, as our kernels take them.
    streams: bool,
    /// The same weight, folded.
    folded: OnceLock<Buffer>,
}

impl DeviceWeight {
    fn new(buffer: Buffer, streams: bool) -> Self {
        Self {
            buffer,
            streams,
            folded: OnceLock::new(),
        }
    }

    /// The weight as products of folded weights read it; only weights that are folded are given to them.
    fn folded_buffer(&self) -> &Buffer {
        let folded = self.folded.get();
        folded.expect("only products with folded weights are computed so")
    }
}

/// How a product is computed, and what was measured when that was decided.
#[derive(Clone, Copy)]
struct Choice {
    way: Way,
    /// The best shape of our kernel.
    variant: Option<Variant>,
    /// What is taken instead where the weight is folded; none as long as no such weight was timed.
    folded: Option<FoldedChoice>,
    /// True when it is to be preferred for gates, where that was timed.
    gates: Option<bool>,
    /// How the library makes two products of it, where that is faster before a norm.
    halves: Option<Algorithm>,
    /// Milliseconds of our kernel where it does the work of its neighbours, and of ours and cuBLASLt where it is done
    /// between them; infinite where there is none.
    fused: f32,
    own: f32,
    blas: f32,
}

impl Choice {
    /// What is taken instead for this weight.
    fn folded_for(&self, weight: &DeviceWeight) -> FoldedChoice {
        weight.folded.get().and(self.folded).unwrap_or_default()
    }

    fn way_for(&self, weight: &DeviceWeight) -> Way {
        self.folded_for(weight).alone.map_or(self.way, Way::Stream)
    }
}

#[derive(Clone, Copy)]
enum Way {
    Stream(Variant),
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

/// All ways to compute products, and which is taken when.
pub(crate) struct Products {
    context: Arc<Context>,
    blas: Blas,
    halves: Halves,
    /// Kernels of Hopper's instructions; without them products are the library's.
    stream: Option<Stream>,
    any: Function,
    float8: Option<Float8Kernels>,
    /// Copies rows; products are timed beside it.
    neighbour: Function,
    /// Gates what a product gave; gated products are timed with it.
    activation: Function,
    /// Fills a matrix with random numbers.
    invent: Function,
    choice: ProductChoice,
    chosen: Mutex<BTreeMap<Shape, Choice>>,
    /// Shapes that nobody chose a way for before their first product came.
    unforeseen: AtomicUsize,
    /// True when a weight had too many strays to be folded.
    refused_fold: AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Products {
    pub(crate) fn new(
        context: &Arc<Context>,
        modules: &Modules,
        units: usize,
        choice: ProductChoice,
    ) -> Result<Self, DeviceError> {
        let hopper = modules.generation() == Generation::Hopper;
        let stream = hopper.then(|| Stream::new(modules, units)).transpose()?;
        let float8 = hopper.then(|| Float8Kernels::new(modules, units));
        Ok(Self {
            context: Arc::clone(context),
            blas: Blas::new(context)?,
            halves: Halves::new(context, modules, units)?,
            stream,
            any: modules.find("linear_any")?,
            float8: float8.transpose()?,
            neighbour: modules.find("gather_rows")?,
            activation: modules.find("gated_activation")?,
            invent: modules.find("invent_weight")?,
            choice,
            chosen: Mutex::default(),
            unforeseen: AtomicUsize::default(),
            refused_fold: AtomicBool::default(),
        })
    }

    /// Our own kernels; only who has a way by them asks.
    fn stream(&self) -> &Stream {
        let stream = self.stream.as_ref();
        stream.expect("ways of our own are chosen where there are kernels for them")
    }

    /// As [`Self::stream`], for weights of eight-bit floats, which are loaded only where there are kernels for them.
    fn float8(&self) -> &Float8Kernels {
        let float8 = self.float8.as_ref();
        float8.expect("weights of eight bits are loaded where there are kernels for them")
    }

    /// Ways of our own to compute a product.
    fn variants(&self, product: &Product<'_>) -> Vec<Variant> {
        let variants = self.stream.as_ref().map(|stream| stream.variants(product));
        variants.unwrap_or_default()
    }

    /// Our way for a product that is short.
    fn short(&self, product: &Product<'_>) -> Option<Variant> {
        self.stream.as_ref()?.short(product)
    }

    /// True when there are kernels for weights of eight-bit floats.
    pub(crate) fn takes_float8(&self) -> bool {
        self.float8.is_some()
    }

    /// True when weights may be kept folded as well.
    pub(crate) fn folds(&self) -> bool {
        self.stream.is_some()
    }

    /// Takes over a weight, `[outputs, inputs]` of bf16, and decides how products of it with up to `most_rows` rows are
    /// computed.
    pub(crate) fn adopt(
        &self,
        buffer: Buffer,
        (outputs, inputs): (usize, usize),
        most_rows: usize,
    ) -> Result<DeviceWeight, DeviceError> {
        let streams = inputs.is_multiple_of(8);
        let weight = DeviceWeight::new(buffer, streams);
        if streams && outputs.is_multiple_of(8) {
            self.choose(&weight, (outputs, inputs), most_rows)?;
        }
        Ok(weight)
    }

    /// Enqueues a product.
    pub(crate) fn run(
        &self,
        product: &mut Product<'_>,
        weight: &DeviceWeight,
    ) -> Result<(), DeviceError> {
        if !weight.streams || !product.rows_are_pieces() {
            return self.run_any(product, weight);
        }
        let rows = product.x.rows();
        // So many rows keep the tensor cores busy by themselves.
        if product.out.dtype() == DType::F32 && rows > MOST_WIDE {
            for start in (0..rows).step_by(MOST_WIDE) {
                let mut part = product.rows(start..rows.min(start + MOST_WIDE));
                self.run(&mut part, weight)?;
            }
            return Ok(());
        }
        // cuBLASLt wants a bias in the type of the results.
        let wide_bias = product.bias.is_some() && product.out.dtype() == DType::F32;
        if product.results_are_pieces() && !wide_bias {
            let way = match self.way(product, weight)? {
                Way::Stream(timed) => Way::Stream(self.short(product).unwrap_or(timed)),
                blas @ Way::Blas(_) => blas,
            };
            return self.run_way(product, weight, &way);
        }
        match self.variants(product).first() {
            Some(&variant) => self.run_way(product, weight, &Way::Stream(variant)),
            None => self.run_any(product, weight),
        }
    }

    fn run_way(
        &self,
        product: &Product<'_>,
        weight: &DeviceWeight,
        way: &Way,
    ) -> Result<(), DeviceError> {
        match way {
            Way::Stream(variant) => {
                let plain = (None, &Ending::Results);
                self.stream()
                    .run(&self.context, *variant, product, weight, plain)
            }
            Way::Blas(algorithm) => {
                let address = weight.buffer.address() as u64;
                self.blas
                    .enqueue(product, address, Factors::Plain, algorithm)
            }
        }
    }

    /// The way chosen for the shape, or what cuBLASLt suggests for shapes that were not tried.
    fn way(&self, product: &Product<'_>, weight: &DeviceWeight) -> Result<Way, DeviceError> {
        let shape = Shape::of(product);
        let mut chosen = locked(&self.chosen);
        let tried = chosen.get(&shape).or_else(|| {
            let unbiased = chosen.get(&shape.unbiased());
            unbiased.filter(|choice| matches!(choice.way_for(weight), Way::Stream(_)))
        });
        if let Some(choice) = tried {
            return Ok(choice.way_for(weight));
        }
        self.tell_unforeseen(&shape);
        let suggested = self.blas.candidates(product, Factors::Plain, 1)?;
        let way = match suggested.first() {
            Some(&algorithm) => Way::Blas(algorithm),
            None => return Err(shape.impossible()),
        };
        let untried = Choice {
            way,
            variant: None,
            folded: None,
            gates: None,
            halves: None,
            fused: f32::INFINITY,
            own: f32::INFINITY,
            blas: f32::INFINITY,
        };
        chosen.insert(shape, untried);
        Ok(way)
    }

    /// Said once a shape: its first product takes longer than the next.
    fn tell_unforeseen(&self, shape: &Shape) {
        self.unforeseen.fetch_add(1, Ordering::Relaxed);
        tracing::warn!("a product was not foreseen when its weight was loaded: {shape}");
    }

    /// Shapes of products that came without having been foreseen.
    pub(crate) fn unforeseen(&self) -> usize {
        self.unforeseen.load(Ordering::Relaxed)
    }

    fn run_any(&self, product: &Product<'_>, weight: &DeviceWeight) -> Result<(), DeviceError> {
        let params = AnyParams {
            x: product.x.address() as u64,
            weight: weight.buffer.address() as u64,
            bias: product.bias_address(),
            out: product.out.address() as u64,
            x_stride: product.x.stride() as u32,
            out_stride: product.out.stride() as u32,
            inputs: product.x.cols() as u32,
            outputs: product.out.cols() as u32,
            wide: u32::from(product.out.dtype() == DType::F32),
        };
        let grid = Grid::rows(product.x.rows(), product.out.cols().div_ceil(8), 256);
        // SAFETY: the struct of the kernel; addresses and strides come from checked views.
        unsafe { launch(&self.context, self.any, grid, &params) }
    }

    /// How products of a weight are computed, one line a row count; for people.
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
            let how = match choice.way {
                Way::Stream(variant) => format!("{variant:?}"),
                Way::Blas(_) => "cuBLASLt".into(),
            };
            let [fused, own, blas] = [choice.fused, choice.own, choice.blas].map(|time| 1e3 * time);
            let rows = shape.bucket;
            format!(
                "{rows:5} rows, {kind:4}: fused {fused:8.1} µs, own {own:8.1} µs, cuBLASLt {blas:8.1} µs, {how}, {:?}, gates {:?}, halves {}, folded {:?}",
                choice.variant,
                choice.gates,
                choice.halves.is_some(),
                choice.folded.and_then(|folded| folded.fused.or(folded.alone))
            )
        })
        .collect()
    }
}
