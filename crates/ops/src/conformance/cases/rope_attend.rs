use tensor::{DType, ViewMut};

use super::super::bench::{Bench, Twin};
use super::super::compare::Kind;
use super::rope::{Cache, positions, table};
use crate::{HeadNorm, Heads, KvCache, OpError, RaggedBatch, RopeAttend, RopeStoreKv};

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

/// One side of a matrix, to write.
fn side(twin: &mut Twin, on_host: bool) -> ViewMut<'_> {
    if on_host {
        twin.host_mut()
    } else {
        twin.device_mut()
    }
}

/// The layer, its memory and the step.
struct Scene {
    heads: Heads,
    page_size: usize,
    window: Option<usize>,
    scale: f32,
    max_query: usize,
    query: Twin,
    key: Twin,
    value: Twin,
    norm: Option<Twin>,
    positions: Twin,
    table: Twin,
    slots: Twin,
    starts: Twin,
    lengths: Twin,
    table_rows: Twin,
    page_table: Twin,
    sinks: Twin,
    cache: Cache,
    out: Twin,
}

impl Scene {
    /// New tokens lie inside wider rows, or by themselves.
    fn new(
        bench: &mut Bench<'_>,
        case: &Case,
        normalised: bool,
        (loud, inside): (f32, bool),
    ) -> Self {
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
        let sinks = bench.normals(query);
        Self {
            heads,
            page_size,
            window,
            max_query: sequences.iter().map(|s| s.1).max().unwrap_or(0),
            query: bench.placed_activations(tokens, heads.query_width(), inside, 1.0),
            key: bench.placed_activations(tokens, heads.kv_width(), inside, loud),
            value: bench.placed_activations(tokens, heads.kv_width(), inside, loud),
            norm: normalised.then(|| bench.activations(1, dim)),
            positions: positions(bench, tokens),
            table: table(bench, dim),
            slots: bench.ints(&slots),
            starts: bench.ints(&starts),
            lengths: bench.ints(&lengths),
            table_rows: bench.ints(&rows_of),
            page_table: bench.int_matrix(rows, widest, &pages_of),
            sinks: bench.floats(1, query, DType::F32, &sinks),
            cache: Cache::new(bench, all * page_size, heads.kv_width(), loud),
            // Scores are as large as they are of normal keys.
            scale: 1.0 / (loud * (dim as f32).sqrt()),
            out: bench.output(tokens, heads.query_width(), inside),
        }
    }

    fn op(&mut self, on_host: bool) -> RopeAttend<'_> {
        let norm = self.norm.as_ref().map(|weight| HeadNorm {
            weight: weight.side(on_host),
            eps: 1e-6,
        });
        RopeAttend {
            rope: RopeStoreKv {
                query: side(&mut self.query, on_host),
                key: side(&mut self.key, on_host),
                value: self.value.side(on_host),
                heads: self.heads,
                query_norm: norm,
                key_norm: norm,
                positions: self.positions.side(on_host),
                table: self.table.side(on_host),
                slots: self.slots.side(on_host),
                cache: KvCache::new(
                    side(&mut self.cache.keys, on_host),
                    side(&mut self.cache.values, on_host),
                ),
            },
            batch: RaggedBatch {
                starts: self.starts.side(on_host),
                lengths: self.lengths.side(on_host),
                table_rows: self.table_rows.side(on_host),
                page_table: self.page_table.side(on_host),
                page_size: self.page_size,
                max_query: self.max_query,
            },
            scale: self.scale,
            window: self.window,
            soft_cap: None,
            sinks: self.window.is_some().then(|| self.sinks.side(on_host)),
            out: side(&mut self.out, on_host),
        }
    }
}

pub(super) fn rope_attend(bench: &mut Bench<'_>) {
    let kind = Kind::Float(bench.activation());
    let ways = |&loud: &f32| {
        let all = [(false, true), (true, true), (false, false), (true, false)];
        all.map(|(normalised, inside)| (normalised, (loud, inside)))
    };
    for case in &CASES {
        if !bench.takes_heads(case.0.2) {
            continue;
        }
        for (normalised, placed) in bench.loudness().iter().flat_map(ways) {
            let (loud, inside) = placed;
            let mut scene = Scene::new(bench, case, normalised, placed);
            scene
                .op(true)
                .compose(&crate::ReferenceDevice::default())
                .expect("the reference takes every case");
            let ran: Result<(), OpError> = bench.device.kernels().rope_attend(scene.op(false));
            let name = format!("{case:?}, normalised {normalised}, loud {loud}, inside {inside}");
            bench.compare("rope_attend", &name, kind, &ran, &scene.out);
            scene.cache.compare(bench, "rope_attend", &name, &ran, true);
        }
    }
}
