use tensor::DType;

use super::super::bench::{Bench, Twin};
use super::super::compare::Kind;
use super::listed::{Given, Listed, compare};
use super::rope::{Cache, positions, table};
use crate::op::HeadNorm;
use crate::program::{Attention, CacheDecl, Elements, Input, Output, Projected, Val};
use crate::{Heads, KvCache, RaggedBatch};

/// Heads (query, key, elements), page size, window, sequences as (length, new tokens).
type Case = (
    (usize, usize, usize),
    usize,
    Option<usize>,
    &'static [(usize, usize)],
);

const CASES: [Case; 13] = [
    (
        (4, 1, 128),
        16,
        None,
        &[(1, 1), (33, 1), (300, 1), (128, 1), (129, 1)],
    ),
    ((8, 2, 128), 16, None, &[(33, 1), (300, 1)]),
    ((8, 2, 128), 32, None, &[(1, 1)]),
    ((12, 2, 128), 8, None, &[(3000, 1), (2, 1)]),
    ((16, 2, 128), 64, None, &[(257, 1)]),
    ((9, 3, 64), 64, None, &[(100, 1), (1500, 1), (64, 1)]),
    ((4, 2, 256), 16, None, &[(200, 1), (17, 1)]),
    ((12, 1, 128), 32, None, &[(700, 1), (2, 1)]),
    ((8, 2, 128), 16, Some(50), &[(400, 1), (49, 1)]),
    ((6, 2, 128), 16, None, &[(70, 3), (31, 1)]),
    ((5, 1, 20), 16, None, &[(70, 1), (31, 1)]),
    ((4, 1, 128), 16, None, &[(300, 0)]),
    ((8, 2, 128), 64, None, &[(150, 150), (129, 5), (40, 1)]),
];

/// The layer, its memory and the step.
struct Scene {
    heads: Heads,
    page_size: usize,
    window: Option<usize>,
    scale: f32,
    max_query: usize,
    /// Queries, keys and values of each token, side by side.
    qkv: Vec<f32>,
    norm: Option<Vec<f32>>,
    positions: Twin,
    table: Twin,
    slots: Twin,
    starts: Twin,
    lengths: Twin,
    table_rows: Twin,
    page_table: Twin,
    sinks: Vec<f32>,
    cache: Cache,
}

impl Scene {
    fn new(bench: &mut Bench<'_>, case: &Case, normalised: bool, loud: f32) -> Self {
        let &((query, kv, dim), page_size, window, sequences) = case;
        let heads = Heads { query, kv, dim };
        let pages: Vec<usize> = sequences.iter().map(|s| s.0.div_ceil(page_size)).collect();
        let (all, widest) = (
            pages.iter().sum::<usize>(),
            pages.iter().copied().max().unwrap_or(1),
        );
        // Pages from the end backwards, and slots of the new tokens.
        let (mut pages_of, mut slots, mut starts, mut next) =
            (Vec::new(), Vec::new(), vec![0], all);
        for (&(length, new), &count) in sequences.iter().zip(&pages) {
            let first = next - count;
            pages_of.extend((0..widest).map(|i| (next.saturating_sub(1 + i)).max(first) as u32));
            for position in length - new..length {
                slots.push(
                    ((next - 1 - position / page_size) * page_size + position % page_size) as u32,
                );
            }
            next = first;
            starts.push(slots.len() as u32);
        }
        let (tokens, rows) = (slots.len(), sequences.len());
        let lengths: Vec<u32> = sequences.iter().map(|s| s.0 as u32).collect();
        let rows_of: Vec<u32> = (0..rows as u32).collect();
        let (wide, narrow) = (heads.query_width(), 2 * heads.kv_width());
        let mut qkv = Vec::with_capacity(tokens * (wide + narrow));
        for _ in 0..tokens {
            qkv.extend(bench.normals(wide));
            qkv.extend(bench.loud(narrow, loud));
        }
        Self {
            heads,
            page_size,
            window,
            max_query: sequences.iter().map(|s| s.1).max().unwrap_or(0),
            qkv,
            norm: normalised.then(|| bench.normals(dim)),
            positions: positions(bench, tokens),
            table: table(bench, dim),
            slots: bench.ints(&slots),
            starts: bench.ints(&starts),
            lengths: bench.ints(&lengths),
            table_rows: bench.ints(&rows_of),
            page_table: bench.int_matrix(rows, widest, &pages_of),
            sinks: bench.normals(query),
            cache: Cache::new(bench, all * page_size, heads.kv_width(), loud),
            // Scores are as large as they are of normal keys.
            scale: 1.0 / (loud * (dim as f32).sqrt()),
        }
    }

    /// The program of the layer.
    fn record(&self, bench: &Bench<'_>, listed: &mut Listed) -> Val {
        let qkv = listed.rows(bench, &self.qkv);
        let table: Vec<f32> = self.table.host().elements::<f32>().to_vec();
        let table = listed.vector(
            bench,
            &table,
            self.table.host().rows(),
            Elements::Fixed(DType::F32),
        );
        let norm = self.norm.as_ref().map(|weight| HeadNorm {
            weight: listed.vector(bench, weight, 1, Elements::Activation),
            eps: 1e-6,
        });
        let sinks = self
            .window
            .is_some()
            .then(|| listed.vector(bench, &self.sinks, 1, Elements::Fixed(DType::F32)));
        let cache = listed.recorder.cache(CacheDecl {
            layer: 0,
            width: self.heads.kv_width(),
            window: self.window,
        });
        listed.recorder.attend(
            Projected::Together(qkv),
            &Attention {
                heads: self.heads,
                norms: norm.map(|norm| [norm, norm]),
                table,
                cache,
                scale: self.scale,
                window: self.window,
                soft_cap: None,
                sinks,
            },
        )
    }
}

pub(super) fn rope_attend(bench: &mut Bench<'_>) {
    let kind = Kind::Float(bench.activation());
    for case in &CASES {
        if !bench.takes_heads(case.0.2) || case.3.iter().all(|sequence| sequence.1 == 0) {
            continue;
        }
        for &loud in bench.loudness() {
            for normalised in [false, true] {
                one(bench, case, (normalised, loud), kind);
            }
        }
    }
}

fn one(bench: &mut Bench<'_>, case: &Case, (normalised, loud): (bool, f32), kind: Kind) {
    let mut scene = Scene::new(bench, case, normalised, loud);
    let mut listed = Listed::new(scene.positions.host().cols());
    let out = scene.record(bench, &mut listed);
    listed.recorder.output(Output::Hidden, out);
    let (page_size, max_query) = (scene.page_size, scene.max_query);
    let Scene {
        cache,
        positions,
        slots,
        starts,
        lengths,
        table_rows,
        page_table,
        ..
    } = &mut scene;
    let batch = |on_host| RaggedBatch {
        starts: starts.side(on_host),
        lengths: lengths.side(on_host),
        table_rows: table_rows.side(on_host),
        page_table: page_table.side(on_host),
        page_size,
        max_query,
    };
    let given = Given {
        inputs: vec![(Input::Positions, positions), (Input::Slots, slots)],
        drawing: None,
    };
    let Cache { keys, values } = cache;
    let (keys_host, keys_device) = keys.both_mut();
    let (values_host, values_device) = values.both_mut();
    let attended = [
        Some((batch(false), KvCache::new(keys_device, values_device))),
        Some((batch(true), KvCache::new(keys_host, values_host))),
    ];
    let mut ran = listed.run(bench, &given, attended);
    let name = format!("{case:?}, normalised {normalised}, loud {loud}");
    compare(
        bench,
        "rope_attend",
        (&name, kind),
        &mut ran,
        Output::Hidden,
    );
    let [device, _] = &ran;
    scene
        .cache
        .compare(bench, "rope_attend", &name, &device.result, true);
}
