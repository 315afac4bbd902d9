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
const HEADS: Heads = Heads {
    query: 9,
    kv: 3,
    dim: 64,
};
const PAGE: usize = 16;

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

/// The kinds of op of a layer, in order, and the head.
const KINDS: [&str; 10] = [
    "norm", "qkv", "rope", "attend", "out", "norm 2", "up", "gate", "down", "head",
];

/// The least time of each kind of op over all layers and repeats: other load on the machine only adds.
struct Times([f64; KINDS.len()]);

impl Times {
    fn total(&self) -> f64 {
        LAYERS as f64 * self.0[..9].iter().sum::<f64>() + self.0[9]
    }

    fn of(&self, kinds: &[&str]) -> f64 {
        let times = KINDS.iter().zip(self.0);
        let of_layer: f64 = times
            .filter(|(kind, _)| kinds.contains(kind))
            .map(|(_, time)| time)
            .sum();
        of_layer * LAYERS as f64
    }
}

impl<'d> Model<'d> {
    fn new(device: &'d CpuDevice, slots: usize) -> Self {
        let kv_bytes = slots * HEADS.kv_width() * device.info().kv.size();
        let layer = |_| Layer {
            qkv: weight(device, 960, HIDDEN, 4),
            out: weight(device, HIDDEN, HIDDEN, 4),
            up: weight(device, 2 * INNER, HIDDEN, 4),
            down: weight(device, HIDDEN, INNER, 4),
            keys: Buffer::host(kv_bytes),
            values: Buffer::host(kv_bytes),
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

    fn linear(&self, x: View<'_>, weight: &Weight, out: ViewMut<'_>) {
        let op = Linear {
            x,
            weight,
            bias: None,
            out,
        };
        self.device.kernels().linear(op).expect("shapes fit");
    }

    /// One step: `rows` sequences of length `context`, the last `new` tokens of each computed.
    fn step(&mut self, rows: usize, context: usize, new: usize, times: &mut Times) {
        let tokens = rows * new;
        let pages = context.div_ceil(PAGE);
        let starts: Vec<u32> = (0..=rows).map(|row| (row * new) as u32).collect();
        let lengths = vec![context as u32; rows];
        let table_rows: Vec<u32> = (0..rows as u32).collect();
        let table: Vec<u32> = (0..(rows * pages) as u32).collect();
        let position = |token: usize| context - new + token % new;
        let positions: Vec<u32> = (0..tokens).map(|token| position(token) as u32).collect();
        let slots: Vec<u32> = (0..tokens)
            .map(|token| (token / new * pages * PAGE + position(token)) as u32)
            .collect();
        let angles = vec![0.5f32; 8192 * HEADS.dim];
        let norm = vec![1.0f32; HIDDEN];
        let mut residual = vec![0.1f32; tokens * HIDDEN];
        let mut x = vec![0.1f32; tokens * HIDDEN];
        let mut normed = vec![0.1f32; tokens * HIDDEN];
        let mut qkv = Buffer::host(tokens * 960 * 4);
        let mut gate_up = vec![0.0f32; tokens * 2 * INNER];
        let mut gated = vec![0.0f32; tokens * INNER];
        let mut mixed = vec![0.0f32; tokens * HIDDEN];
        let mut logits = vec![0.0f32; rows * VOCABULARY];
        let batch = RaggedBatch {
            starts: View::of(&starts),
            lengths: View::of(&lengths),
            table_rows: View::of(&table_rows),
            page_table: View::of_matrix(&table, rows, pages),
            page_size: PAGE,
            max_query: new,
        };
        let kernels = self.device.kernels();
        let (kv, kv_slots) = (self.device.info().kv, self.slots);
        let mut clock = Instant::now();
        let mut lap = |kind: usize| {
            times.0[kind] = times.0[kind].min(clock.elapsed().as_secs_f64());
            clock = Instant::now();
        };
        let mut caches: Vec<(Buffer, Buffer)> = Vec::new();
        for layer in &mut self.layers {
            let nothing = || Buffer::nowhere(0);
            caches.push((
                std::mem::replace(&mut layer.keys, nothing()),
                std::mem::replace(&mut layer.values, nothing()),
            ));
        }
        for (layer, cache) in self.layers.iter().zip(&mut caches) {
            let add_norm = |x: &[f32], residual: &mut [f32], out: &mut [f32]| {
                let op = AddRmsNorm {
                    x: View::of_matrix(x, tokens, HIDDEN),
                    residual: ViewMut::of_matrix(residual, tokens, HIDDEN),
                    weight: View::of(&norm),
                    eps: 1e-5,
                    out: ViewMut::of_matrix(out, tokens, HIDDEN),
                };
                kernels.add_rms_norm(op).expect("shapes fit");
            };
            add_norm(&x, &mut residual, &mut normed);
            lap(0);
            let x_view = View::of_matrix(&normed, tokens, HIDDEN);
            self.linear(x_view, &layer.qkv, qkv.view_mut(0, tokens, 960, DType::F32));
            lap(1);
            let width = HEADS.kv_width();
            let shape = (kv_slots, width);
            let cache = KvCache::new(
                cache.0.view_mut(0, shape.0, shape.1, kv),
                cache.1.view_mut(0, shape.0, shape.1, kv),
            );
            let (mut q, rest) = qkv
                .view_mut(0, tokens, 960, DType::F32)
                .split_columns(HIDDEN);
            let (k, v) = rest.split_columns(width);
            let op = RopeStoreKv {
                query: q.reborrow(),
                key: k,
                value: v.view(),
                heads: HEADS,
                query_norm: None,
                key_norm: None,
                positions: View::of(&positions),
                table: View::of_matrix(&angles, 8192, HEADS.dim),
                slots: View::of(&slots),
                cache,
            };
            kernels.rope_store_kv(op).expect("shapes fit");
            lap(2);
            let op = Attend {
                query: q.view(),
                cache,
                batch,
                heads: HEADS,
                scale: 0.125,
                window: None,
                soft_cap: None,
                sinks: None,
                out: ViewMut::of_matrix(&mut mixed, tokens, HIDDEN),
            };
            kernels.attend(op).expect("shapes fit");
            lap(3);
            let mixed = View::of_matrix(&mixed, tokens, HIDDEN);
            self.linear(
                mixed,
                &layer.out,
                ViewMut::of_matrix(&mut x, tokens, HIDDEN),
            );
            lap(4);
            add_norm(&x, &mut residual, &mut normed);
            lap(5);
            let x_view = View::of_matrix(&normed, tokens, HIDDEN);
            let out = ViewMut::of_matrix(&mut gate_up, tokens, 2 * INNER);
            self.linear(x_view, &layer.up, out);
            lap(6);
            let op = GatedActivation {
                gate_up: View::of_matrix(&gate_up, tokens, 2 * INNER),
                activation: Activation::Silu,
                out: ViewMut::of_matrix(&mut gated, tokens, INNER),
            };
            kernels.gated_activation(op).expect("shapes fit");
            lap(7);
            let x_view = View::of_matrix(&gated, tokens, INNER);
            self.linear(
                x_view,
                &layer.down,
                ViewMut::of_matrix(&mut x, tokens, HIDDEN),
            );
            lap(8);
        }
        let last = View::of_matrix(&normed, tokens, HIDDEN).row_range(0..rows);
        self.linear(
            last,
            &self.head,
            ViewMut::of_matrix(&mut logits, rows, VOCABULARY),
        );
        lap(9);
        for (layer, (keys, values)) in self.layers.iter_mut().zip(caches) {
            (layer.keys, layer.values) = (keys, values);
        }
    }
}

pub(crate) fn table(device: &CpuDevice, floor: &Floor) {
    let mut model = Model::new(device, 16 * 512);
    let bytes = model.bytes();
    println!(
        "step                        ms   linear  attend    rest    head   tokens/s  measured/floor"
    );
    for (name, rows, context, new, repeats) in [
        ("decode 1 at 128", 1, 128, 1, 300),
        ("decode 1 at 2048", 1, 2048, 1, 60),
        ("decode 4 at 256", 4, 256, 1, 60),
        ("decode 16 at 256", 16, 256, 1, 40),
        ("prompt of 128", 1, 128, 128, 12),
        ("prompt of 512", 1, 512, 512, 6),
    ] {
        let mut times = Times([f64::INFINITY; KINDS.len()]);
        for _ in 0..repeats {
            model.step(rows, context, new, &mut times);
        }
        let tokens = rows * new;
        let macs =
            LAYERS * HIDDEN * (960 + HIDDEN + 3 * INNER) * tokens + rows * HIDDEN * VOCABULARY;
        println!(
            "{name:22} {:8.2} {:8.2} {:7.2} {:7.2} {:7.2} {:10.1} {:10.2}",
            times.total() * 1e3,
            times.of(&["qkv", "out", "up", "down"]) * 1e3,
            times.of(&["attend"]) * 1e3,
            times.of(&["norm", "rope", "norm 2", "gate"]) * 1e3,
            times.0[9] * 1e3,
            tokens as f64 / times.total(),
            times.total() / floor.time(bytes, macs)
        );
    }
}
