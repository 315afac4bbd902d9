//! Decode steps of whole models without sampling: every op of every layer in one graph, against the time that reading
//! the weights and the cache takes.

use cuda::CudaDevice;
use ops::{
    Activation, AddRmsNorm, Attend, Device as _, GatedActivation, HeadNorm, Heads, KvCache, Linear,
    OpError, RaggedBatch, RopeStoreKv, Weight,
};
use tensor::DType;

use crate::bench::{MEMORY, Matrix, linear, repeated, time, weight};

const PAGE: usize = 64;

/// Dimensions of a model.
struct Dims {
    name: &'static str,
    hidden: usize,
    inner: usize,
    heads: Heads,
    /// Layers in the model; fewer are measured.
    layers: usize,
    vocabulary: usize,
    norms: bool,
    bias: bool,
}

const MODELS: [Dims; 2] = [
    Dims {
        name: "Qwen3-8B",
        hidden: 4096,
        inner: 12288,
        heads: Heads {
            query: 32,
            kv: 8,
            dim: 128,
        },
        layers: 36,
        vocabulary: 151_936,
        norms: true,
        bias: false,
    },
    Dims {
        name: "R1-Distill-1.5B",
        hidden: 1536,
        inner: 8960,
        heads: Heads {
            query: 12,
            kv: 2,
            dim: 128,
        },
        layers: 28,
        vocabulary: 151_936,
        norms: false,
        bias: true,
    },
];

const MEASURED: usize = 6;

struct Layer {
    qkv: Weight,
    output: Weight,
    gate_up: Weight,
    down: Weight,
    bias: Matrix,
}

/// Keys and values of a layer.
type Cache = (Matrix, Matrix);

struct Step {
    batch: [Matrix; 4],
    table: Matrix,
    positions: Matrix,
    slots: Matrix,
    norm: Matrix,
    head_norm: Matrix,
    residual: Matrix,
    hidden: Matrix,
    delta: Matrix,
    qkv: Matrix,
    mixed: Matrix,
    wide: Matrix,
    inner: Matrix,
}

impl Step {
    fn new(device: &CudaDevice, dims: &Dims, rows: usize, length: usize) -> Self {
        let pages = length.div_ceil(PAGE);
        let count: Vec<u32> = (0..=rows as u32).collect();
        let words = |values: &[u32]| Matrix::ints(device, values);
        let slots: Vec<u32> = (0..rows)
            .map(|row| (row * pages * PAGE + length - 1) as u32)
            .collect();
        let table: Vec<u32> = (0..(rows * pages) as u32).collect();
        let bf16 = |cols| Matrix::new(device, rows, cols, DType::BF16);
        let heads = dims.heads;
        Self {
            batch: [
                words(&count),
                words(&vec![length as u32; rows]),
                words(&count[..rows]),
                Matrix::int_matrix(device, rows, pages, &table),
            ],
            table: Matrix::floats(
                device,
                length,
                heads.dim,
                DType::F32,
                &repeated(length * heads.dim, 1),
            ),
            positions: words(&vec![length as u32 - 1; rows]),
            slots: words(&slots),
            norm: Matrix::floats(device, 1, dims.hidden, DType::F32, &vec![1.0; dims.hidden]),
            head_norm: Matrix::floats(device, 1, heads.dim, DType::F32, &vec![1.0; heads.dim]),
            residual: Matrix::random(device, rows, dims.hidden, 3),
            hidden: bf16(dims.hidden),
            delta: Matrix::random(device, rows, dims.hidden, 4),
            qkv: bf16(heads.query_width() + 2 * heads.kv_width()),
            mixed: bf16(heads.query_width()),
            wide: bf16(2 * dims.inner),
            inner: bf16(dims.inner),
        }
    }

    fn normalise(&mut self, device: &CudaDevice) -> Result<(), OpError> {
        device.kernels().add_rms_norm(AddRmsNorm {
            x: self.delta.view(),
            residual: self.residual.view_mut(),
            weight: self.norm.view(),
            eps: 1e-6,
            out: self.hidden.view_mut(),
        })
    }

    fn run(
        &mut self,
        device: &CudaDevice,
        dims: &Dims,
        layer: &Layer,
        cache: &mut Cache,
    ) -> Result<(), OpError> {
        let (kernels, heads) = (device.kernels(), dims.heads);
        self.normalise(device)?;
        kernels.linear(Linear {
            x: self.hidden.view(),
            weight: &layer.qkv,
            bias: dims.bias.then(|| layer.bias.view()),
            out: self.qkv.view_mut(),
        })?;
        let (mut query, kv) = self.qkv.view_mut().split_columns(heads.query_width());
        let (key, value) = kv.split_columns(heads.kv_width());
        let norm = || {
            dims.norms.then(|| HeadNorm {
                weight: self.head_norm.view(),
                eps: 1e-6,
            })
        };
        kernels.rope_store_kv(RopeStoreKv {
            query: query.reborrow(),
            key,
            value: value.into_view(),
            heads,
            query_norm: norm(),
            key_norm: norm(),
            positions: self.positions.view(),
            table: self.table.view(),
            slots: self.slots.view(),
            cache: KvCache::new(cache.0.view_mut(), cache.1.view_mut()),
        })?;
        let [starts, lengths, table_rows, page_table] = &self.batch;
        kernels.attend(Attend {
            query: query.into_view(),
            cache: KvCache::new(cache.0.view_mut(), cache.1.view_mut()),
            batch: RaggedBatch {
                starts: starts.view(),
                lengths: lengths.view(),
                table_rows: table_rows.view(),
                page_table: page_table.view(),
                page_size: PAGE,
                max_query: 1,
            },
            heads,
            scale: 1.0 / (heads.dim as f32).sqrt(),
            window: None,
            soft_cap: None,
            sinks: None,
            out: self.mixed.view_mut(),
        })?;
        linear(
            device,
            self.mixed.view(),
            &layer.output,
            self.delta.view_mut(),
        )?;
        self.normalise(device)?;
        linear(
            device,
            self.hidden.view(),
            &layer.gate_up,
            self.wide.view_mut(),
        )?;
        kernels.gated_activation(GatedActivation {
            gate_up: self.wide.view(),
            activation: Activation::Silu,
            out: self.inner.view_mut(),
        })?;
        linear(
            device,
            self.inner.view(),
            &layer.down,
            self.delta.view_mut(),
        )
    }
}

pub(crate) fn run(device: &CudaDevice) -> bool {
    for dims in &MODELS {
        let qkv = dims.heads.query_width() + 2 * dims.heads.kv_width();
        let layers: Vec<Layer> = (0..MEASURED as u64)
            .map(|i| Layer {
                qkv: weight(device, qkv, dims.hidden, i),
                output: weight(device, dims.hidden, dims.heads.query_width(), i),
                gate_up: weight(device, 2 * dims.inner, dims.hidden, i),
                down: weight(device, dims.hidden, dims.inner, i),
                bias: Matrix::floats(device, 1, qkv, DType::BF16, &repeated(qkv, i)),
            })
            .collect();
        for (rows, length) in [(1, 1088), (8, 1088), (64, 1536), (256, 1536)] {
            measure(device, dims, &layers, rows, length);
        }
    }
    true
}

fn measure(device: &CudaDevice, dims: &Dims, layers: &[Layer], rows: usize, length: usize) {
    let heads = dims.heads;
    let qkv = heads.query_width() + 2 * heads.kv_width();
    let slots = rows * length.div_ceil(PAGE) * PAGE;
    let cache = |seed| Matrix::random(device, slots, heads.kv_width(), seed);
    let mut caches: Vec<Cache> = (0..MEASURED as u64)
        .map(|i| (cache(i), cache(i + 9)))
        .collect();
    let mut step = Step::new(device, dims, rows, length);
    let us = time(device, 2 * MEASURED, |turn| {
        let which = turn % MEASURED;
        step.run(device, dims, &layers[which], &mut caches[which])
    });
    let weights = 2 * dims.hidden * (qkv + heads.query_width() + 3 * dims.inner);
    let cache = 4 * rows * length * heads.kv_width();
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
