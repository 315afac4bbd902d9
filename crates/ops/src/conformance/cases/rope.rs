use tensor::DType;

use super::super::bench::{Bench, Twin};
use super::super::compare::Kind;
use crate::{HeadNorm, Heads, KvCache, Rope, RopeStoreKv, StoreKv};

const POSITIONS: usize = 40;

/// Cosines and sines of `d` elements, as models make them.
pub(super) fn table(bench: &mut Bench<'_>, d: usize) -> Twin {
    let half = d / 2;
    let angle = |position: usize, i: usize| {
        position as f64 * 10_000f64.powf(-((i % half.max(1)) as f64) / half.max(1) as f64)
    };
    let values: Vec<f32> = (0..POSITIONS)
        .flat_map(|position| {
            (0..2 * half).map(move |i| {
                let angle = angle(position, i);
                (if i < half { angle.cos() } else { angle.sin() }) as f32
            })
        })
        .collect();
    bench.floats(POSITIONS, 2 * half, DType::F32, &values)
}

pub(super) fn positions(bench: &mut Bench<'_>, tokens: usize) -> Twin {
    let values: Vec<u32> = (0..tokens).map(|_| bench.below(POSITIONS) as u32).collect();
    bench.ints(&values)
}

/// Head dim, rotated elements, heads, tokens, normalised.
const ROPES: [(usize, usize, usize, usize, bool); 9] = [
    (64, 64, 5, 700, true),
    (64, 64, 9, 1, false),
    (64, 64, 3, 7, true),
    (96, 96, 2, 3, false),
    (128, 128, 4, 2, true),
    (256, 256, 1, 5, true),
    (80, 32, 2, 4, false),
    (20, 10, 3, 3, true),
    (64, 64, 2, 0, false),
];

/// A case with rows inside wider ones, and by themselves.
fn placed<T>(case: &T) -> [(&T, bool); 2] {
    [(case, true), (case, false)]
}

pub(super) fn rope(bench: &mut Bench<'_>) {
    for (&(head_dim, rotated, heads, tokens, normalised), inside) in ROPES.iter().flat_map(placed) {
        let table = table(bench, rotated);
        let positions = positions(bench, tokens);
        let weight = bench.activations(1, head_dim);
        let mut x = bench.placed_activations(tokens, heads * head_dim, inside, 1.0);
        let eps = 1e-6;
        Rope {
            norm: normalised.then(|| HeadNorm {
                weight: weight.host(),
                eps,
            }),
            head_dim,
            positions: positions.host(),
            table: table.host(),
            x: x.host_mut(),
        }
        .reference();
        let ran = bench.device.kernels().rope(Rope {
            norm: normalised.then(|| HeadNorm {
                weight: weight.device(),
                eps,
            }),
            head_dim,
            positions: positions.device(),
            table: table.device(),
            x: x.device_mut(),
        });
        let case = format!("{tokens}×{heads}×{head_dim}, {rotated} rotated, inside {inside}");
        let kind = Kind::Float(bench.activation());
        bench.compare("rope", &case, kind, &ran, &x);
    }
}

/// Keys and values of so many slots, random on both sides.
pub(super) struct Cache {
    pub(super) keys: Twin,
    pub(super) values: Twin,
}

impl Cache {
    pub(super) fn new(bench: &mut Bench<'_>, slots: usize, width: usize, loud: f32) -> Self {
        let (kv, count) = (bench.device.info().kv, slots * width);
        let (keys, values) = (bench.loud(count, loud), bench.loud(count, loud));
        Self {
            keys: bench.floats(slots, width, kv, &keys),
            values: bench.floats(slots, width, kv, &values),
        }
    }

    /// After an op that has rotated keys, or only stored them.
    pub(super) fn compare(
        &self,
        bench: &mut Bench<'_>,
        op: &'static str,
        case: &str,
        ran: &Result<(), crate::OpError>,
        rotated: bool,
    ) {
        let kv = Kind::Float(bench.device.info().kv);
        // There is one nearest number of eight bits.
        let stored = match kv {
            Kind::Float(DType::F8E4M3) => Kind::Exact,
            kind => kind,
        };
        let of_keys = if rotated { kv } else { stored };
        bench.compare(op, &format!("{case} keys"), of_keys, ran, &self.keys);
        bench.compare(op, &format!("{case} values"), stored, ran, &self.values);
    }
}

/// A prime, more than any case has tokens.
const SLOTS: usize = 709;

/// Different slots in no order.
fn slots(bench: &mut Bench<'_>, tokens: usize) -> Twin {
    let slot = |i: u32| i * 7 % SLOTS as u32;
    let values: Vec<u32> = (0..tokens as u32).map(slot).collect();
    bench.ints(&values)
}

pub(super) fn store_kv(bench: &mut Bench<'_>) {
    let shapes = [(1, 192), (5, 33), (30, 512), (0, 64)];
    let both = |&loud: &f32| shapes.map(|(tokens, width)| (tokens, width, loud));
    for (tokens, width, loud) in bench.loudness().iter().flat_map(both) {
        let key = bench.placed_activations(tokens, width, true, loud);
        let value = bench.placed_activations(tokens, width, true, loud);
        let slots = slots(bench, tokens);
        let mut cache = Cache::new(bench, SLOTS, width, 1.0);
        StoreKv {
            key: key.host(),
            value: value.host(),
            slots: slots.host(),
            cache: KvCache::new(cache.keys.host_mut(), cache.values.host_mut()),
        }
        .reference();
        let ran = bench.device.kernels().store_kv(StoreKv {
            key: key.device(),
            value: value.device(),
            slots: slots.device(),
            cache: KvCache::new(cache.keys.device_mut(), cache.values.device_mut()),
        });
        let case = format!("{tokens}×{width}, loud {loud}");
        cache.compare(bench, "store_kv", &case, &ran, false);
    }
}

/// Query heads, key heads, their elements, tokens, normalised.
const STORED: [(usize, usize, usize, usize, bool); 7] = [
    (9, 3, 64, 1, false),
    (4, 1, 128, 6, true),
    (2, 2, 96, 30, false),
    (3, 1, 20, 3, true),
    (7, 2, 128, 600, true),
    (3, 1, 64, 520, false),
    (2, 1, 256, 530, true),
];

pub(super) fn rope_store_kv(bench: &mut Bench<'_>) {
    for &loud in bench.loudness() {
        rope_store_loud_kv(bench, loud);
    }
}

fn rope_store_loud_kv(bench: &mut Bench<'_>, loud: f32) {
    for (&(query, kv, dim, tokens, normalised), inside) in STORED.iter().flat_map(placed) {
        let heads = Heads { query, kv, dim };
        let table = table(bench, dim);
        let positions = positions(bench, tokens);
        let slots = slots(bench, tokens);
        let weight = bench.activations(1, dim);
        let mut q = bench.placed_activations(tokens, heads.query_width(), inside, 1.0);
        let mut k = bench.placed_activations(tokens, heads.kv_width(), inside, loud);
        let value = bench.placed_activations(tokens, heads.kv_width(), inside, loud);
        let mut cache = Cache::new(bench, SLOTS, heads.kv_width(), 1.0);
        let host_norm = normalised.then(|| HeadNorm {
            weight: weight.host(),
            eps: 1e-6,
        });
        RopeStoreKv {
            query: q.host_mut(),
            key: k.host_mut(),
            value: value.host(),
            heads,
            query_norm: host_norm,
            key_norm: host_norm,
            positions: positions.host(),
            table: table.host(),
            slots: slots.host(),
            cache: KvCache::new(cache.keys.host_mut(), cache.values.host_mut()),
        }
        .reference();
        let norm = normalised.then(|| HeadNorm {
            weight: weight.device(),
            eps: 1e-6,
        });
        let ran = bench.device.kernels().rope_store_kv(RopeStoreKv {
            query: q.device_mut(),
            key: k.device_mut(),
            value: value.device(),
            heads,
            query_norm: norm,
            key_norm: norm,
            positions: positions.device(),
            table: table.device(),
            slots: slots.device(),
            cache: KvCache::new(cache.keys.device_mut(), cache.values.device_mut()),
        });
        let case = format!("{tokens}×{query}/{kv}×{dim}, inside {inside}, loud {loud}");
        let kind = Kind::Float(bench.activation());
        bench.compare("rope_store_kv", &case, kind, &ran, &q);
        bench.compare("rope_store_kv", &case, kind, &ran, &k);
        cache.compare(bench, "rope_store_kv", &case, &ran, true);
    }
}
