//! Dense products: cuBLASLt, our own kernel for few rows, and a plain one for what neither takes.
//!
//! Which way a product goes is decided when its weight is loaded, by timing all of them.

mod blas;
mod stream;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys;
use ops::DeviceError;
use tensor::{Buffer, DType, View, ViewMut};

use crate::context::Context;
use crate::driver::check;
use crate::event::Event;
use crate::launch::{Grid, launch};
use crate::memory::allocate;
use crate::module::{Function, Modules};

use blas::{Algorithm, Blas};
use stream::{Stream, Variant, WeightMaps};

/// Row counts that ways are chosen for; a product uses the next one above its own. One choice for up to eight rows, so
/// that a row has the same bits alone and in small company.
const BUCKETS: [usize; 11] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];
/// The most rows of products that give floats: rows that sample at once.
const MOST_WIDE: usize = 512;
/// Runs of each way; the median counts.
const REPEATS: usize = 5;
/// Written between runs so that nothing is found in the cache that a step would not find there.
const FLUSHED: usize = 160 << 20;
/// Elements of the longest bias.
const LONGEST_BIAS: usize = 1 << 18;

/// One out = x · weightᵀ (+ bias).
pub(crate) struct Product<'a> {
    pub(crate) x: View<'a>,
    pub(crate) weight: u64,
    pub(crate) bias: Option<View<'a>>,
    pub(crate) out: ViewMut<'a>,
}

impl Product<'_> {
    fn rows_are_pieces(&self) -> bool {
        (self.x.address() as usize).is_multiple_of(16)
            && self.x.stride().is_multiple_of(8)
            && self.x.cols().is_multiple_of(8)
    }

    fn results_are_pieces(&self) -> bool {
        (self.out.address() as usize).is_multiple_of(16)
            && (self.out.stride() * self.out.dtype().size()).is_multiple_of(16)
    }
}

/// A weight as this device holds it.
pub(crate) struct DeviceWeight {
    pub(crate) buffer: Buffer,
    maps: WeightMaps,
}

/// A product's shape, as far as the choice goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    outputs: usize,
    inputs: usize,
    bucket: usize,
    wide: bool,
    bias: bool,
}

impl Shape {
    fn of(product: &Product<'_>) -> Self {
        let rows = product.x.rows();
        let bucket = BUCKETS.into_iter().find(|&bucket| bucket >= rows);
        Self {
            outputs: product.out.cols(),
            inputs: product.x.cols(),
            bucket: bucket.unwrap_or(BUCKETS[BUCKETS.len() - 1]),
            wide: product.out.dtype() == DType::F32,
            bias: product.bias.is_some(),
        }
    }
}

/// How a product is computed, and what was measured when that was decided.
#[derive(Clone, Copy)]
struct Choice {
    way: Way,
    /// Milliseconds of our kernel and of cuBLASLt; infinite where there is none.
    own: f32,
    blas: f32,
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

#[derive(Clone, Copy)]
#[repr(C)]
struct RoundParams {
    from: u64,
    to: u64,
    count: u32,
}

/// All ways to compute products, and which is taken when.
pub(crate) struct Products {
    context: Arc<Context>,
    blas: Blas,
    stream: Stream,
    any: Function,
    round: Function,
    rounded_bias: Buffer,
    chosen: Mutex<BTreeMap<Shape, Choice>>,
}

impl Products {
    pub(crate) fn new(
        context: &Arc<Context>,
        modules: &Modules,
        units: usize,
    ) -> Result<Self, DeviceError> {
        Ok(Self {
            context: Arc::clone(context),
            blas: Blas::new(context)?,
            stream: Stream::new(context, modules, units)?,
            any: modules.find("linear_any")?,
            round: modules.find("round_values")?,
            rounded_bias: allocate(context, 2 * LONGEST_BIAS, "a bias")?,
            chosen: Mutex::default(),
        })
    }

    /// Takes over a weight, `[outputs, inputs]` of bf16, and decides how products of it with up to `most_rows` rows are
    /// computed.
    pub(crate) fn adopt(
        &self,
        buffer: Buffer,
        (outputs, inputs): (usize, usize),
        most_rows: usize,
    ) -> Result<DeviceWeight, DeviceError> {
        let maps = stream::weight_maps(buffer.address() as u64, outputs, inputs)?;
        let weight = DeviceWeight { buffer, maps };
        if weight.maps.is_some() && outputs.is_multiple_of(8) {
            self.choose(&weight, outputs, inputs, most_rows)?;
        }
        Ok(weight)
    }

    /// Enqueues a product.
    pub(crate) fn run(
        &self,
        product: &Product<'_>,
        weight: &DeviceWeight,
    ) -> Result<(), DeviceError> {
        let Some(maps) = weight.maps.as_ref().filter(|_| product.rows_are_pieces()) else {
            return self.run_any(product);
        };
        match self.way(product)? {
            Way::Stream(variant) => self.stream.run(&self.context, variant, product, maps),
            Way::Blas(algorithm) if product.results_are_pieces() => {
                self.run_blas(product, &algorithm)
            }
            Way::Blas(_) if product.x.rows() <= stream::MOST_ROWS => {
                let variant = self.stream.variants(product.x.rows(), product.out.cols())[0];
                self.stream.run(&self.context, variant, product, maps)
            }
            Way::Blas(_) => self.run_any(product),
        }
    }

    /// The way chosen for the shape, or what cuBLASLt suggests for shapes that were not tried.
    fn way(&self, product: &Product<'_>) -> Result<Way, DeviceError> {
        let shape = Shape::of(product);
        let mut chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        let tried = chosen.get(&shape).or_else(|| {
            let choice = chosen.get(&Shape {
                bias: false,
                ..shape
            })?;
            matches!(choice.way, Way::Stream(_)).then_some(choice)
        });
        if let Some(choice) = tried {
            return Ok(choice.way);
        }
        let suggested = self.blas.candidates(product, 1)?;
        let way = match suggested.first() {
            Some(&algorithm) => Way::Blas(algorithm),
            None => return Err(none_found(&shape)),
        };
        let untried = Choice {
            way,
            own: f32::INFINITY,
            blas: f32::INFINITY,
        };
        chosen.insert(shape, untried);
        Ok(way)
    }

    /// cuBLASLt wants a bias in the type of the results.
    fn run_blas(&self, product: &Product<'_>, algorithm: &Algorithm) -> Result<(), DeviceError> {
        let Some(bias) = product.bias.filter(|_| product.out.dtype() != DType::F32) else {
            let bias = product.bias.as_ref().map(|bias| bias.address() as u64);
            return self.blas.enqueue(product, bias, algorithm);
        };
        assert!(
            bias.cols() <= LONGEST_BIAS,
            "a bias of {} elements",
            bias.cols()
        );
        let params = RoundParams {
            from: bias.address() as u64,
            to: self.rounded_bias.address() as u64,
            count: bias.cols() as u32,
        };
        // SAFETY: the struct of the kernel; there is room for the longest bias (asserted).
        unsafe {
            launch(
                &self.context,
                self.round,
                Grid::over(bias.cols(), 256),
                &params,
            )
        }?;
        self.blas.enqueue(product, Some(params.to), algorithm)
    }

    fn run_any(&self, product: &Product<'_>) -> Result<(), DeviceError> {
        let params = AnyParams {
            x: product.x.address() as u64,
            weight: product.weight,
            bias: product
                .bias
                .as_ref()
                .map_or(0, |bias| bias.address() as u64),
            out: product.out.address() as u64,
            x_stride: product.x.stride() as u32,
            out_stride: product.out.stride() as u32,
            inputs: product.x.cols() as u32,
            outputs: product.out.cols() as u32,
            wide: u32::from(product.out.dtype() == DType::F32),
        };
        let grid = Grid {
            blocks: (product.out.cols().div_ceil(8), product.x.rows(), 1),
            threads: 256,
            shared: 0,
        };
        // SAFETY: the struct of the kernel; addresses and strides come from checked views.
        unsafe { launch(&self.context, self.any, grid, &params) }
    }

    /// Times all ways for a weight of a new shape.
    fn choose(
        &self,
        weight: &DeviceWeight,
        outputs: usize,
        inputs: usize,
        most_rows: usize,
    ) -> Result<(), DeviceError> {
        let largest = BUCKETS
            .into_iter()
            .find(|&bucket| bucket >= most_rows)
            .unwrap_or(BUCKETS[BUCKETS.len() - 1]);
        let known = |wide| {
            let shape = Shape {
                outputs,
                inputs,
                bucket: largest,
                wide,
                bias: false,
            };
            self.chosen
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .contains_key(&shape)
        };
        if known(false) {
            return Ok(());
        }
        let flushed = allocate(&self.context, FLUSHED, "choosing ways")?;
        let x = allocate(&self.context, largest * inputs * 2, "choosing ways")?;
        for (limit, dtype) in [(largest, DType::BF16), (largest.min(MOST_WIDE), DType::F32)] {
            let mut out = allocate(
                &self.context,
                limit * outputs * dtype.size(),
                "choosing ways",
            )?;
            for bucket in BUCKETS.into_iter().take_while(|&bucket| bucket <= limit) {
                let product = Product {
                    x: x.view(0, bucket, inputs, DType::BF16),
                    weight: weight.buffer.address() as u64,
                    bias: None,
                    out: out.view_mut(0, bucket, outputs, dtype),
                };
                let choice = self.fastest(&product, weight, &flushed)?;
                self.chosen
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert(Shape::of(&product), choice);
            }
        }
        Ok(())
    }

    fn fastest(
        &self,
        product: &Product<'_>,
        weight: &DeviceWeight,
        flushed: &Buffer,
    ) -> Result<Choice, DeviceError> {
        let rows = product.x.rows();
        let maps = weight.maps.as_ref();
        let maps = maps.expect("only described weights are tried");
        let variants = self.stream.variants(rows, product.out.cols());
        let own = shortest(variants, |variant| {
            let run = || self.stream.run(&self.context, *variant, product, maps);
            self.time(&run, flushed)
        });
        let algorithms = self.blas.candidates(product, blas::CANDIDATES)?;
        let blas = shortest(algorithms, |algorithm| {
            let run = || self.blas.enqueue(product, None, algorithm);
            self.time(&run, flushed)
        });
        let time_of = |time: Option<f32>| time.unwrap_or(f32::INFINITY);
        let (own_time, blas_time) = (
            time_of(own.map(|(time, _)| time)),
            time_of(blas.map(|(time, _)| time)),
        );
        let way = match (own, blas) {
            (Some((_, variant)), _) if own_time <= blas_time => Way::Stream(variant),
            (_, Some((_, algorithm))) => Way::Blas(algorithm),
            _ => return Err(none_found(&Shape::of(product))),
        };
        Ok(Choice {
            way,
            own: own_time,
            blas: blas_time,
        })
    }

    fn time(
        &self,
        run: &dyn Fn() -> Result<(), DeviceError>,
        flushed: &Buffer,
    ) -> Result<f32, DeviceError> {
        let (before, after) = (
            Event::new(&self.context, true)?,
            Event::new(&self.context, true)?,
        );
        run()?;
        let mut times = [0.0f32; REPEATS];
        for time in &mut times {
            let (address, bytes) = (flushed.address() as sys::CUdeviceptr, flushed.bytes());
            // SAFETY: the buffer has so many bytes and nobody reads them.
            let result = unsafe { sys::cuMemsetD8Async(address, 0, bytes, self.context.stream()) };
            check(result, "emptying the cache")?;
            before.record()?;
            run()?;
            after.record()?;
            after.wait()?;
            *time = after.since(&before)?;
        }
        times.sort_by(f32::total_cmp);
        Ok(times[REPEATS / 2])
    }

    /// How products of a weight are computed, one line a row count; for people.
    pub(crate) fn describe(&self, outputs: usize, inputs: usize) -> Vec<String> {
        let chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = chosen
            .iter()
            .filter(|(shape, _)| shape.outputs == outputs && shape.inputs == inputs);
        mine.map(|(shape, choice)| {
            let kind = if shape.wide { "f32" } else { "bf16" };
            let how = match choice.way {
                Way::Stream(variant) => format!("{variant:?}"),
                Way::Blas(_) => "cuBLASLt".into(),
            };
            let (own, blas) = (1e3 * choice.own, 1e3 * choice.blas);
            let rows = shape.bucket;
            format!("{rows:5} rows, {kind:4}: own {own:8.1} µs, cuBLASLt {blas:8.1} µs, {how}")
        })
        .collect()
    }
}

/// The way that takes the shortest time; ways that fail do not count.
fn shortest<W: Copy>(
    ways: Vec<W>,
    time: impl Fn(&W) -> Result<f32, DeviceError>,
) -> Option<(f32, W)> {
    let timed = ways
        .into_iter()
        .filter_map(|way| Some((time(&way).ok()?, way)));
    timed.min_by(|a, b| a.0.total_cmp(&b.0))
}

fn none_found(shape: &Shape) -> DeviceError {
    DeviceError::Lost {
        device: "cuda".into(),
        message: format!(
            "no way to multiply {} × {} with {} rows",
            shape.outputs, shape.inputs, shape.bucket
        ),
    }
}
