//! Whole steps of SmolLM2: every op of every layer, without sampling.

use std::time::Instant;

use cpu::CpuDevice;
use ops::{
    Activation, AddRmsNorm, Attend, Device, GatedActivation, Heads, KvCache, Linear, RaggedBatch,
    RopeStoreKv, Weight,
};
use tensor::{Buffer, DType, View, ViewMut};

use crate::floor::Floor;
use crate::linear::weight;

const LAYERS: usize = 30;
const HIDDEN: usize = 576;
const INNER: usize = 1536;
const VOCABULARY: usize = 49_152;
const POSITIONS: usize = 8192;
const PAGE: usize = 16;
const HEADS: Heads = Heads {
    query: 9,
    kv: 3,
    dim: 64,
};
const QKV: usize = HIDDEN + 2 * HEADS.kv * HEADS.dim;

/// The kinds of op of a layer, in order, and the head.
const KINDS: [&str; 10] = [
    "norm", "qkv", "rope", "attend", "out", "norm 2", "up", "gate", "down", "head",
];

/// The least time of each kind of op over all layers and repeats: other load on the machine only adds.
struct Times {
    least: [f64; KINDS.len()],
    clock: Instant,
}

impl Times {
    fn new() -> Self {
        Self {
            least: [f64::INFINITY; KINDS.len()],
            clock: Instant::now(),
        }
    }

    fn lap(&mut self, kind: usize) {
        self.least[kind] = self.least[kind].min(self.clock.elapsed().as_secs_f64());
        self.clock = Instant::now();
    }

    fn total(&self) -> f64 {
        LAYERS as f64 * self.least[..9].iter().sum::<f64>() + self.least[9]
    }

    fn of(&self, kinds: &[&str]) -> f64 {
        let times = KINDS.iter().zip(self.least);
        let chosen = times.filter(|(kind, _)| kinds.contains(kind));
        chosen.map(|(_, time)| time).sum::<f64>() * LAYERS as f64
    }
}

struct Layer {
    qkv: Weight,
    out: Weight,
    up: Weight,
    down: Weight,
    keys: Buffer,
    values: Buffer,
}

struct Model<'d> {
    device: &'d CpuDevice,
    layers: Vec<Layer>,
    head: Weight,
    slots: usize,
}

/// Inputs and activations of a step: `rows` sequences of length `context`, the last `new` tokens of each computed.
struct Step {
    rows: usize,
    tokens: usize,
    new: usize,
    starts: Vec<u32>,
    lengths: Vec<u32>,
    table_rows: Vec<u32>,
    page_table: Vec<u32>,
    positions: Vec<u32>,
    slots: Vec<u32>,
    angles: Vec<f32>,
    norm: Vec<f32>,
    residual: Buffer,
    x: Buffer,
    normed: Buffer,
    qkv: Buffer,
    mixed: Buffer,
    gate_up: Buffer,
    gated: Buffer,
    logits: Buffer,
}

impl Step {
    fn new(rows: usize, context: usize, new: usize) -> Self {
        let (tokens, pages) = (rows * new, context.div_ceil(PAGE));
        let position = |token: usize| context - new + token % new;
        let slot = |token: usize| token / new * pages * PAGE + position(token);
        let floats = |cols: usize| {
            let values: Vec<f32> = (0..tokens * cols)
                .map(|i| (i % 97) as f32 * 0.01 - 0.5)
                .collect();
            ops::host::host_values(&values, DType::F32)
        };
        Self {
            rows,
            tokens,
            new,
            starts: (0..=rows).map(|row| (row * new) as u32).collect(),
            lengths: vec![context as u32; rows],
            table_rows: (0..rows as u32).collect(),
            page_table: (0..(rows * pages) as u32).collect(),
            positions: (0..tokens).map(|token| position(token) as u32).collect(),
            slots: (0..tokens).map(|token| slot(token) as u32).collect(),
            angles: vec![0.5; POSITIONS * HEADS.dim],
            norm: vec![1.0; HIDDEN],
            residual: floats(HIDDEN),
            x: floats(HIDDEN),
            normed: floats(HIDDEN),
            qkv: floats(QKV),
            mixed: floats(HIDDEN),
            gate_up: floats(2 * INNER),
            gated: floats(INNER),
            logits: Buffer::host(rows * VOCABULARY * 4),
        }
    }

    fn batch(&self) -> RaggedBatch<'_> {
        RaggedBatch {
            starts: View::of(&self.starts),
            lengths: View::of(&self.lengths),
            table_rows: View::of(&self.table_rows),
            page_table: View::of_matrix(
                &self.page_table,
                self.rows,
                self.page_table.len() / self.rows,
            ),
            page_size: PAGE,
            max_query: self.new,
        }
    }
}

/// All tokens of a buffer of activations.
fn read(buffer: &Buffer, tokens: usize) -> View<'_> {
    buffer.view(0, tokens, buffer.bytes() / 4 / tokens, DType::F32)
}

fn write(buffer: &mut Buffer, tokens: usize) -> ViewMut<'_> {
    let cols = buffer.bytes() / 4 / tokens;
    buffer.view_mut(0, tokens, cols, DType::F32)
}

impl<'d> Model<'d> {
    fn new(device: &'d CpuDevice, slots: usize) -> Self {
        let cache = || {
            let numbers = slots * HEADS.kv_width();
            let bytes = numbers * device.info().kv.size();
            let mut buffer = device.allocate(bytes, "a cache").expect("enough memory");
            let mut view = buffer.view_mut(0, 1, numbers, device.info().kv);
            for i in 0..numbers {
                view.set(0, i, (i % 89) as f32 * 0.02 - 0.9);
            }
            buffer
        };
        let layer = |_| Layer {
            qkv: weight(device, QKV, HIDDEN, 4),
            out: weight(device, HIDDEN, HIDDEN, 4),
            up: weight(device, 2 * INNER, HIDDEN, 4),
            down: weight(device, HIDDEN, INNER, 4),
            keys: cache(),
            values: cache(),
        };
        Self {
            device,
            layers: (0..LAYERS).map(layer).collect(),
            head: weight(device, VOCABULARY, HIDDEN, 8),
            slots,
        }
    }

    fn bytes(&self) -> usize {
        let of = |l: &Layer| l.qkv.bytes() + l.out.bytes() + l.up.bytes() + l.down.bytes();
        self.layers.iter().map(of).sum::<usize>() + self.head.bytes()
    }

    fn run(&mut self, step: &mut Step, times: &mut Times) {
        times.clock = Instant::now();
        for layer in &mut self.layers {
            attention(self.device, layer, self.slots, step, times);
            mlp(self.device, layer, step, times);
        }
        let last = read(&step.normed, step.tokens).row_range(0..step.rows);
        let logits = write(&mut step.logits, step.rows);
        linear(self.device, last, &self.head, logits);
        times.lap(9);
    }
}

fn linear(device: &CpuDevice, x: View<'_>, weight: &Weight, out: ViewMut<'_>) {
    let op = Linear {
        x,
        weight,
        bias: None,
        out,
    };
    device.kernels().linear(op).expect("shapes fit");
}

fn add_norm(device: &CpuDevice, step: &mut Step) {
    let op = AddRmsNorm {
        x: read(&step.x, step.tokens),
        residual: write(&mut step.residual, step.tokens),
        weight: View::of(&step.norm),
        eps: 1e-5,
        out: write(&mut step.normed, step.tokens),
    };
    device.kernels().add_rms_norm(op).expect("shapes fit");
}

fn attention(
    device: &CpuDevice,
    layer: &mut Layer,
    slots: usize,
    step: &mut Step,
    times: &mut Times,
) {
    let (kernels, tokens, kv) = (device.kernels(), step.tokens, device.info().kv);
    add_norm(device, step);
    times.lap(0);
    let qkv = write(&mut step.qkv, tokens);
    linear(device, read(&step.normed, tokens), &layer.qkv, qkv);
    times.lap(1);
    let width = HEADS.kv_width();
    let cache = KvCache::new(
        layer.keys.view_mut(0, slots, width, kv),
        layer.values.view_mut(0, slots, width, kv),
    );
    let (mut query, rest) = write(&mut step.qkv, tokens).split_columns(HIDDEN);
    let (key, value) = rest.split_columns(width);
    let op = RopeStoreKv {
        query: query.reborrow(),
        key,
        value: value.view(),
        heads: HEADS,
        query_norm: None,
        key_norm: None,
        positions: View::of(&step.positions),
        table: View::of_matrix(&step.angles, POSITIONS, HEADS.dim),
        slots: View::of(&step.slots),
        cache,
    };
    kernels.rope_store_kv(op).expect("shapes fit");
    times.lap(2);
    let query = read(&step.qkv, tokens).columns(0..HIDDEN);
    let mut mixed = std::mem::replace(&mut step.mixed, Buffer::nowhere(0));
    let op = Attend {
        query,
        cache,
        batch: step.batch(),
        heads: HEADS,
        scale: 0.125,
        window: None,
        soft_cap: None,
        sinks: None,
        out: write(&mut mixed, tokens),
    };
    kernels.attend(op).expect("shapes fit");
    step.mixed = mixed;
    times.lap(3);
    let x = write(&mut step.x, tokens);
    linear(device, read(&step.mixed, tokens), &layer.out, x);
    times.lap(4);
}

fn mlp(device: &CpuDevice, layer: &Layer, step: &mut Step, times: &mut Times) {
    let tokens = step.tokens;
    add_norm(device, step);
    times.lap(5);
    let gate_up = write(&mut step.gate_up, tokens);
    linear(device, read(&step.normed, tokens), &layer.up, gate_up);
    times.lap(6);
    let op = GatedActivation {
        gate_up: read(&step.gate_up, tokens),
        activation: Activation::Silu,
        out: write(&mut step.gated, tokens),
    };
    device.kernels().gated_activation(op).expect("shapes fit");
    times.lap(7);
    let x = write(&mut step.x, tokens);
    linear(device, read(&step.gated, tokens), &layer.down, x);
    times.lap(8);
}

pub(crate) fn table(device: &CpuDevice, floor: &Floor) {
    let mut model = Model::new(device, 16 * 512);
    let bytes = model.bytes();
    println!("step                     ms   linear  attend    rest    head   tokens/s  over floor");
    for (name, rows, context, new, repeats) in [
        ("decode 1 at 128", 1, 128, 1, 300),
        ("decode 1 at 2048", 1, 2048, 1, 60),
        ("decode 4 at 256", 4, 256, 1, 60),
        ("decode 16 at 256", 16, 256, 1, 40),
        ("prompt of 128", 1, 128, 128, 12),
        ("prompt of 512", 1, 512, 512, 6),
    ] {
        let mut times = Times::new();
        let mut step = Step::new(rows, context, new);
        for _ in 0..repeats {
            model.run(&mut step, &mut times);
        }
        let tokens = rows * new;
        let macs = LAYERS * HIDDEN * (QKV + HIDDEN + 3 * INNER) * tokens;
        println!(
            "{name:19} {:8.2} {:8.2} {:7.2} {:7.2} {:7.2} {:10.1} {:10.2}",
            times.total() * 1e3,
            times.of(&["qkv", "out", "up", "down"]) * 1e3,
            times.of(&["attend"]) * 1e3,
            times.of(&["norm", "rope", "norm 2", "gate"]) * 1e3,
            times.least[9] * 1e3,
            tokens as f64 / times.total(),
            times.total() / floor.time(bytes, macs + rows * HIDDEN * VOCABULARY)
        );
    }
}
