//! Decode steps of whole models without sampling: every op of every layer in one graph, against the time that reading
//! the weights and the cache takes.

mod dims;
mod lengths;
mod replay;

use std::time::{Duration, Instant};

use cuda::CudaDevice;
use cuda::fused::{DeferredScale, GatedGemm, GemmAddNorm, GemmInput, RopeAttend, RowForm};
use ops::{
    Activation, Device as _, HeadNorm, KvCache, Linear, OpError, RaggedBatch, RopeStoreKv, Weight,
    WeightFormat,
};
use tensor::DType;

use crate::bench::{MEMORY, Matrix, TENSOR, captured, repeated, time, time_replays, weight};
use crate::trace;

use dims::{Dims, MODELS};
use lengths::{CLOSE, FEW, MANY, MIXED, PARTS, PROMPTS, alike, close, longest, mixed};

pub(crate) use replay::{bf12_small, narrow_small, replay_as_they_run, replays_small};

const PAGE: usize = 64;

const MEASURED: usize = 6;
/// Time after which clocks do not change any more.
const SUSTAINED: Duration = Duration::from_secs(6);
const SUSTAINED_REPLAYS: usize = 20;
const EPS: f32 = 1e-6;

struct Layer {
    qkv: Weight,
    output: Weight,
    gate_up: Weight,
    down: Weight,
    bias: Matrix,
}

impl Layer {
    /// Weights of two bytes.
    fn new(device: &CudaDevice, dims: &Dims, seed: u64) -> Self {
        Self::of(device, dims, seed, &|rows, cols| {
            weight(device, rows, cols, seed)
        })
    }

    /// Weights of two bytes that are folded too.
    fn bf12(device: &CudaDevice, dims: &Dims, seed: u64) -> Self {
        Self::of(device, dims, seed, &|rows, cols| {
            let weight = weight(device, rows, cols, seed);
            device.fold(&weight).expect("room for it");
            weight
        })
    }

    /// Weights of one byte with a scale a row, as `--quantization fp8` makes them.
    fn narrow(device: &CudaDevice, dims: &Dims, seed: u64) -> Self {
        let format = WeightFormat::Float8 { group: 0 };
        Self::of(device, dims, seed, &|rows, cols| {
            let invented = device.invent_weight((rows, cols), format, seed);
            invented
                .expect("memory")
                .expect("weights of one byte")
                .weight
        })
    }

    fn of(
        device: &CudaDevice,
        dims: &Dims,
        seed: u64,
        weight: &dyn Fn(usize, usize) -> Weight,
    ) -> Self {
        let qkv = dims.qkv();
        Self {
            qkv: weight(qkv, dims.hidden),
            output: weight(dims.hidden, dims.heads.query_width()),
            gate_up: weight(2 * dims.inner, dims.hidden),
            down: weight(dims.hidden, dims.inner),
            bias: Matrix::floats(device, 1, qkv, DType::BF16, &repeated(qkv, seed)),
        }
    }
}

/// Keys and values of a layer.
type Cache = (Matrix, Matrix);

struct Step {
    batch: [Matrix; 4],
    /// New tokens of every sequence.
    new: usize,
    table: Matrix,
    positions: Matrix,
    slots: Matrix,
    norm: Matrix,
    head_norm: Matrix,
    residual: Matrix,
    hidden: Matrix,
    delta: Matrix,
    squares: Matrix,
    /// Of the rows that the next layer reads.
    state: RowForm,
    qkv: Matrix,
    mixed: Matrix,
    wide: Matrix,
    inner: Matrix,
}

impl Step {
    /// Sequences of these lengths, each with so many new tokens at its end.
    fn new(device: &CudaDevice, dims: &Dims, lengths: &[usize], new: usize) -> Self {
        let (sequences, longest) = (lengths.len(), longest(lengths));
        let (pages, rows) = (longest.div_ceil(PAGE), sequences * new);
        let count: Vec<u32> = (0..=sequences as u32).collect();
        let starts: Vec<u32> = count.iter().map(|&row| row * new as u32).collect();
        let counted: Vec<u32> = lengths.iter().map(|&length| length as u32).collect();
        let words = |values: &[u32]| Matrix::ints(device, values);
        let position = |token: usize| lengths[token / new] - new + token % new;
        let positions: Vec<u32> = (0..rows).map(|token| position(token) as u32).collect();
        let slots: Vec<u32> = (0..rows)
            .map(|token| (token / new * pages * PAGE + position(token)) as u32)
            .collect();
        let table: Vec<u32> = (0..(sequences * pages) as u32).collect();
        let bf16 = |cols| Matrix::new(device, rows, cols, DType::BF16);
        let heads = dims.heads;
        Self {
            batch: [
                words(&starts),
                words(&counted),
                words(&count[..sequences]),
                Matrix::int_matrix(device, sequences, pages, &table),
            ],
            new,
            table: Matrix::floats(
                device,
                longest,
                heads.dim,
                DType::F32,
                &repeated(longest * heads.dim, 1),
            ),
            positions: words(&positions),
            slots: words(&slots),
            norm: Matrix::floats(device, 1, dims.hidden, DType::F32, &vec![1.0; dims.hidden]),
            head_norm: Matrix::floats(device, 1, heads.dim, DType::F32, &vec![1.0; heads.dim]),
            residual: Matrix::random(device, rows, dims.hidden, 3),
            hidden: bf16(dims.hidden),
            delta: Matrix::random(device, rows, dims.hidden, 4),
            squares: Matrix::new(
                device,
                rows,
                dims.hidden.div_ceil(DeferredScale::PART),
                DType::F32,
            ),
            state: RowForm::Plain,
            qkv: bf16(heads.query_width() + 2 * heads.kv_width()),
            mixed: bf16(heads.query_width()),
            wide: bf16(2 * dims.inner),
            inner: bf16(dims.inner),
        }
    }

    /// Ends a layer with a GEMM of what attention gave, or of gated rows in some form: onto the residual, through a
    /// norm, to what `readers` multiply.
    fn add_norm(
        &mut self,
        device: &CudaDevice,
        weight: &Weight,
        readers: &Weight,
        input: Option<RowForm>,
    ) -> Result<RowForm, OpError> {
        let (x, input) = match input {
            None => (&self.mixed, GemmInput::Plain),
            Some(RowForm::Codes) => (&self.inner, GemmInput::Codes),
            Some(_) => (&self.inner, GemmInput::Plain),
        };
        device.run_gemm_add_norm(GemmAddNorm {
            gemm: Linear {
                x: x.view(),
                weight,
                bias: None,
                out: self.delta.view_mut(),
            },
            input,
            residual: self.residual.view_mut(),
            weight: self.norm.view(),
            eps: EPS,
            out: self.hidden.view_mut(),
            squares: self.squares.view_mut(),
            readers: &[readers],
        })
    }

    fn run(
        &mut self,
        device: &CudaDevice,
        dims: &Dims,
        layer: &Layer,
        cache: &mut Cache,
    ) -> Result<(), OpError> {
        let heads = dims.heads;
        let product = Linear {
            x: self.hidden.view(),
            weight: &layer.qkv,
            bias: dims.bias.then(|| layer.bias.view()),
            out: self.qkv.view_mut(),
        };
        device.multiply(input(self.state, &self.squares, dims.hidden), product)?;
        let (query, kv) = self.qkv.view_mut().split_columns(heads.query_width());
        let (key, value) = kv.split_columns(heads.kv_width());
        let norm = || {
            dims.norms.then(|| HeadNorm {
                weight: self.head_norm.view(),
                eps: EPS,
            })
        };
        let [starts, lengths, table_rows, page_table] = &self.batch;
        device.launch_rope_attend(RopeAttend {
            rope: RopeStoreKv {
                query,
                key,
                value: value.into_view(),
                heads,
                query_norm: norm(),
                key_norm: norm(),
                positions: self.positions.view(),
                table: self.table.view(),
                slots: self.slots.view(),
                cache: KvCache::new(cache.0.view_mut(), cache.1.view_mut()),
            },
            batch: RaggedBatch {
                starts: starts.view(),
                lengths: lengths.view(),
                table_rows: table_rows.view(),
                page_table: page_table.view(),
                page_size: PAGE,
                max_query: self.new,
            },
            scale: 1.0 / (heads.dim as f32).sqrt(),
            window: None,
            soft_cap: None,
            sinks: None,
            out: self.mixed.view_mut(),
        })?;
        let state = self.add_norm(device, &layer.output, &layer.gate_up, None)?;
        let form = device.run_gated_gemm(GatedGemm {
            gemm: Linear {
                x: self.hidden.view(),
                weight: &layer.gate_up,
                bias: None,
                out: self.wide.view_mut(),
            },
            input: input(state, &self.squares, dims.hidden),
            activation: Activation::Silu,
            out: self.inner.view_mut(),
            readers: &[&layer.down],
        })?;
        self.state = self.add_norm(device, &layer.down, &layer.qkv, Some(form))?;
        Ok(())
    }
}

/// Normalised rows as a product takes them.
fn input(state: RowForm, squares: &Matrix, width: usize) -> GemmInput<'_> {
    state.input(DeferredScale {
        squares: squares.view(),
        width,
        eps: EPS,
    })
}

/// Steps of few rows alone.
pub(crate) fn few(device: &CudaDevice) -> bool {
    measure_all(device, &alike(&FEW))
}

pub(crate) fn run(device: &CudaDevice) -> bool {
    measure_all(device, &alike(&[&FEW[..], &MANY].concat()))
}

/// Steps of many rows of the first model for some seconds: until the GPU is as warm, and keeps as low a clock, as in a long
/// load. Then what each kernel takes.
pub(crate) fn sustained(device: &CudaDevice) -> bool {
    let dims = &MODELS[0];
    let layers = dims.layers(device);
    let mut traced = true;
    for (rows, length) in [(64, 1536), (256, 1536)] {
        let mut scene = Scene::new(device, dims, &vec![length; rows], 1);
        let many = 2 * MEASURED;
        let graph = captured(device, many, |turn| scene.run(device, &layers, turn));
        let mut readback = device.readback(16).expect("a readback");
        let mut measured = || {
            let us = time_replays(graph.as_ref(), readback.as_mut(), SUSTAINED_REPLAYS);
            us / many as f64
        };
        let (began, first) = (Instant::now(), measured());
        let mut last = first;
        while began.elapsed() < SUSTAINED {
            last = measured();
        }
        println!(
            "{:15} {rows:3} rows × {length}: {first:7.1} µs a layer at first, {last:7.1} after {:.0} s, when kernels take",
            dims.name,
            began.elapsed().as_secs_f64()
        );
        traced &= trace::of_graph(device, many, graph.as_ref());
    }
    traced
}

/// Steps of sequences of mixed lengths, of lengths close to each other, and of one that is no whole number of pieces.
pub(crate) fn mix(device: &CudaDevice) -> bool {
    let mixed = MIXED.map(|(rows, length)| mixed(rows, length));
    let close = CLOSE.map(|(rows, length)| close(rows, length));
    measure_all(device, &[&mixed[..], &close, &alike(&PARTS)].concat())
}

/// Steps of the first model with weights of one byte, over a cache as the device was opened for.
pub(crate) fn narrow(device: &CudaDevice) -> bool {
    let dims = &MODELS[0];
    let layers = dims.narrow_layers(device);
    for lengths in alike(&[&FEW[..], &MANY].concat()) {
        measure(device, dims, &layers, &lengths);
    }
    true
}

/// Steps of sequences of these lengths.
fn measure_all(device: &CudaDevice, steps: &[Vec<usize>]) -> bool {
    for dims in &MODELS {
        let layers = dims.layers(device);
        for lengths in steps {
            measure(device, dims, &layers, lengths);
        }
    }
    true
}

/// Times of the kernels in layers.
pub(crate) fn kernels(device: &CudaDevice) -> bool {
    MODELS.iter().all(|dims| {
        let layers = dims.layers(device);
        for (outputs, inputs) in dims.shapes() {
            println!("GEMMs of {outputs} × {inputs}");
            for line in device.describe_gemms(outputs, inputs) {
                println!("    {line}");
            }
        }
        let mut steps = [FEW[0], FEW[4]].into_iter().chain(MANY);
        steps.all(|step| by_kernel(device, dims, &layers, step, 1))
    })
}

/// The same with weights of one byte, over a cache as the device was opened for.
pub(crate) fn narrow_kernels(device: &CudaDevice) -> bool {
    let dims = &MODELS[0];
    let layers = dims.narrow_layers(device);
    for (outputs, inputs) in dims.shapes() {
        println!("GEMMs of {outputs} × {inputs}");
        for line in device.describe_float8_gemms(outputs, inputs) {
            println!("    {line}");
        }
    }
    let mut steps = MANY.into_iter().filter(|&(rows, _)| rows > 32);
    steps.all(|step| by_kernel(device, dims, &layers, step, 1))
}

/// The same of prompts, whole and the second half of twice as long ones, against the time that multiplying takes.
pub(crate) fn prompts(device: &CudaDevice) -> bool {
    MODELS.iter().all(|dims| {
        let layers = dims.layers(device);
        PROMPTS.iter().all(|&(rows, length, new)| {
            let heads = dims.heads;
            let outputs = dims.qkv() + heads.query_width() + 3 * dims.inner;
            let pairs = new * (2 * length - new) / 2;
            let flops =
                2 * rows * new * dims.hidden * outputs + 4 * rows * pairs * heads.query_width();
            println!("floor {:.1} µs", flops as f64 / TENSOR);
            by_kernel(device, dims, &layers, (rows, length), new)
        })
    })
}

fn by_kernel(
    device: &CudaDevice,
    dims: &Dims,
    layers: &[Layer],
    (rows, length): (usize, usize),
    new: usize,
) -> bool {
    let mut scene = Scene::new(device, dims, &vec![length; rows], new);
    let us = time(device, 2 * MEASURED, |turn| scene.run(device, layers, turn));
    println!(
        "{} {rows} rows × {length}, {new} new: {us:.1} µs a layer",
        dims.name
    );
    trace::run(device, 2 * MEASURED, |turn| scene.run(device, layers, turn))
}

impl Dims {
    /// Those that are measured.
    fn layers(&self, device: &CudaDevice) -> Vec<Layer> {
        (0..MEASURED as u64)
            .map(|i| Layer::new(device, self, i))
            .collect()
    }

    /// The same with weights of one byte.
    fn narrow_layers(&self, device: &CudaDevice) -> Vec<Layer> {
        (0..MEASURED as u64)
            .map(|i| Layer::narrow(device, self, i))
            .collect()
    }
}

/// A step and the caches that take turns.
struct Scene<'d> {
    dims: &'d Dims,
    step: Step,
    caches: Vec<Cache>,
}

impl<'d> Scene<'d> {
    fn new(device: &CudaDevice, dims: &'d Dims, lengths: &[usize], new: usize) -> Self {
        let slots = lengths.len() * longest(lengths).div_ceil(PAGE) * PAGE;
        let cache = |seed| match device.info().kv {
            DType::F8E4M3 => Matrix::random_bytes(device, slots, dims.heads.kv_width(), seed),
            _ => Matrix::random(device, slots, dims.heads.kv_width(), seed),
        };
        Self {
            dims,
            step: Step::new(device, dims, lengths, new),
            caches: (0..MEASURED as u64)
                .map(|i| (cache(i), cache(i + 9)))
                .collect(),
        }
    }

    /// One layer.
    fn run(&mut self, device: &CudaDevice, layers: &[Layer], turn: usize) -> Result<(), OpError> {
        let which = turn % MEASURED;
        self.step
            .run(device, self.dims, &layers[which], &mut self.caches[which])
    }
}

fn measure(device: &CudaDevice, dims: &Dims, layers: &[Layer], lengths: &[usize]) {
    let (rows, positions) = (lengths.len(), lengths.iter().sum::<usize>());
    let shortest = lengths.iter().copied().min().unwrap_or(0);
    let length = match longest(lengths) {
        longest if longest > shortest => format!("{shortest} to {longest}"),
        longest => longest.to_string(),
    };
    let mut scene = Scene::new(device, dims, lengths, 1);
    let us = time(device, 2 * MEASURED, |turn| scene.run(device, layers, turn));
    let heads = dims.heads;
    let layer = &layers[0];
    let weights = [&layer.qkv, &layer.output, &layer.gate_up, &layer.down];
    let weights: usize = weights.into_iter().map(Weight::bytes).sum();
    let cache = 2 * device.info().kv.size() * positions * heads.kv_width();
    let floor = (weights + cache) as f64 / MEMORY;
    let head = 2 * dims.hidden * dims.vocabulary;
    let whole = (us * dims.layers as f64 + head as f64 / MEMORY) / 1e3;
    let least = (floor * dims.layers as f64 + head as f64 / MEMORY) / 1e3;
    println!(
        "{:15} {rows:3} rows × {length}: {us:7.1} µs a layer, floor {floor:7.1}, {:4.1} %; {} layers and head at its floor {whole:.2} ms of {least:.2}",
        dims.name,
        100.0 * floor / us,
        dims.layers
    );
}
