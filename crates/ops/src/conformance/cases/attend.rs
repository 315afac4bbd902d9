use tensor::{DType, View, ViewMut};

use super::super::bench::{Bench, Twin};
use super::super::compare::Kind;
use super::linear::differing;
use crate::{Attend, Heads, KvCache, OpError, RaggedBatch};

/// Tokens in memory after the step, and how many of them are new.
type Sequence = (usize, usize);

/// A layer, its memory and the sequences in it.
struct Scene {
    heads: Heads,
    page_size: usize,
    keys: Twin,
    values: Twin,
    page_table: Twin,
    sinks: Option<Twin>,
    window: Option<usize>,
    soft_cap: Option<f32>,
    scale: f32,
    /// Length of each sequence of the scene; its row of the page table is its place counted from the end.
    lengths: Vec<usize>,
}

/// What a case asks for.
#[derive(Clone)]
struct Case {
    heads: (usize, usize, usize),
    page_size: usize,
    window: Option<usize>,
    soft_cap: Option<f32>,
    sinks: bool,
    sequences: Vec<Sequence>,
    /// Keys and values are so many times what is normal, scores are not.
    loud: f32,
}

impl Case {
    fn name(&self) -> String {
        let (query, kv, dim) = self.heads;
        format!(
            "{query}/{kv}×{dim}, page {}, window {:?}, cap {:?}, sinks {}, {:?}, loud {}",
            self.page_size, self.window, self.soft_cap, self.sinks, self.sequences, self.loud
        )
    }
}

impl Scene {
    fn new(bench: &mut Bench<'_>, case: &Case) -> Self {
        let (query, kv, dim) = case.heads;
        let heads = Heads { query, kv, dim };
        let lengths: Vec<usize> = case.sequences.iter().map(|sequence| sequence.0).collect();
        let pages: Vec<usize> = lengths
            .iter()
            .map(|length| length.div_ceil(case.page_size))
            .collect();
        let (all, widest) = (pages.iter().sum::<usize>() + 1, pages.iter().max());
        let widest = widest.copied().unwrap_or(0).max(1);
        let rows = lengths.len() + 1;
        // Pages from the end backwards, so that neighbours in time are not neighbours in memory.
        let mut table = vec![u32::MAX; rows * widest];
        let mut next = all as u32;
        let (slots, width) = (all * case.page_size, heads.kv_width());
        let (mut keys, mut values) = (vec![f32::NAN; slots * width], vec![f32::NAN; slots * width]);
        for (sequence, &length) in lengths.iter().enumerate() {
            let row = rows - 1 - sequence;
            for position in 0..length {
                if position % case.page_size == 0 {
                    next -= 1;
                    table[row * widest + position / case.page_size] = next;
                }
                let page = table[row * widest + position / case.page_size] as usize;
                let start = (page * case.page_size + position % case.page_size) * width;
                for at in start..start + width {
                    (keys[at], values[at]) =
                        (case.loud * bench.normal(), case.loud * bench.normal());
                }
            }
        }
        let kv = bench.device.info().kv;
        let sinks = case.sinks.then(|| bench.normals(query));
        Self {
            heads,
            page_size: case.page_size,
            keys: bench.floats(slots, width, kv, &keys),
            values: bench.floats(slots, width, kv, &values),
            page_table: bench.int_matrix(rows, widest, &table),
            sinks: sinks.map(|sinks| bench.floats(1, query, DType::F32, &sinks)),
            window: case.window,
            soft_cap: case.soft_cap,
            scale: 1.0 / (case.loud * (dim as f32).sqrt()),
            lengths,
        }
    }

    /// Runs some of the sequences: (which, length, new tokens) each.
    fn run(
        &mut self,
        bench: &mut Bench<'_>,
        query: View<'_>,
        rows: &[(usize, usize, usize)],
        out: ViewMut<'_>,
        on_host: bool,
    ) -> Result<(), OpError> {
        let mut starts = vec![0];
        for &(_, _, new) in rows {
            starts.push(starts.last().copied().unwrap_or(0) + new as u32);
        }
        let lengths: Vec<u32> = rows.iter().map(|row| row.1 as u32).collect();
        let table_rows: Vec<u32> = rows
            .iter()
            .map(|row| (self.lengths.len() - row.0) as u32)
            .collect();
        let starts = bench.ints(&starts);
        let (lengths, table_rows) = (bench.ints(&lengths), bench.ints(&table_rows));
        let batch = RaggedBatch {
            starts: starts.side(on_host),
            lengths: lengths.side(on_host),
            table_rows: table_rows.side(on_host),
            page_table: self.page_table.side(on_host),
            page_size: self.page_size,
            max_query: rows.iter().map(|row| row.2).max().unwrap_or(0),
        };
        let cache = if on_host {
            KvCache::new(self.keys.host_mut(), self.values.host_mut())
        } else {
            KvCache::new(self.keys.device_mut(), self.values.device_mut())
        };
        let op = Attend {
            query,
            cache,
            batch,
            heads: self.heads,
            scale: self.scale,
            window: self.window,
            soft_cap: self.soft_cap,
            sinks: self.sinks.as_ref().map(|sinks| sinks.side(on_host)),
            out,
        };
        if on_host {
            op.check()?;
            op.reference();
            Ok(())
        } else {
            bench.device.kernels().attend(op)
        }
    }
}

fn cases() -> Vec<Case> {
    let plain = Case {
        heads: (9, 3, 64),
        page_size: 16,
        window: None,
        soft_cap: None,
        sinks: false,
        sequences: vec![(1, 1), (33, 1), (100, 1), (5, 5)],
        loud: 1.0,
    };
    let mut cases = vec![plain.clone()];
    let with = |change: &dyn Fn(&mut Case)| {
        let mut case = plain.clone();
        change(&mut case);
        case
    };
    for heads in [
        (1, 1, 64),
        (2, 1, 96),
        (6, 2, 128),
        (4, 1, 256),
        (5, 1, 20),
        (6, 1, 80),
        (7, 1, 16),
        (8, 1, 64),
        (4, 4, 33),
    ] {
        cases.push(with(&|case| {
            case.heads = heads;
            case.sequences = vec![(70, 3), (40, 40), (31, 1)];
        }));
    }
    for page_size in [1, 16, 64] {
        cases.push(with(&|case| {
            case.page_size = page_size;
            case.sequences = vec![(130, 2), (64, 64), (65, 1), (7, 0), (63, 63)];
        }));
    }
    for window in [1, 16, 50, 1000] {
        cases.push(with(&|case| {
            case.window = Some(window);
            case.sequences = vec![(200, 70), (90, 1), (3, 3)];
        }));
    }
    cases.push(with(&|case| case.soft_cap = Some(1.5)));
    cases.push(with(&|case| case.sinks = true));
    cases.push(with(&|case| {
        (case.sinks, case.soft_cap, case.window) = (true, Some(30.0), Some(37));
        case.sequences = vec![(120, 40), (38, 1)];
    }));
    cases.push(with(&|case| {
        case.heads = (2, 1, 64);
        case.sequences = vec![(1500, 1), (700, 2)];
    }));
    cases.push(with(&|case| case.sequences = vec![(12, 0)]));
    cases
}

pub(super) fn attend(bench: &mut Bench<'_>) {
    let placed = |loud: f32| [(loud, true), (loud, false)];
    for (loud, inside) in bench.loudness().iter().copied().flat_map(placed) {
        for case in cases().into_iter().map(|case| Case { loud, ..case }) {
            if bench.takes_heads(case.heads.2) {
                attend_one(bench, &case, inside);
            }
        }
    }
}

/// Queries and results lie inside wider rows, or by themselves.
fn attend_one(bench: &mut Bench<'_>, case: &Case, inside: bool) {
    let mut scene = Scene::new(bench, case);
    let tokens = case.sequences.iter().map(|sequence| sequence.1).sum();
    let query = bench.placed_activations(tokens, scene.heads.query_width(), inside, 1.0);
    let mut out = bench.output(tokens, scene.heads.query_width(), inside);
    let rows: Vec<_> = case
        .sequences
        .iter()
        .enumerate()
        .map(|(which, &(length, new))| (which, length, new))
        .collect();
    let reference = scene.run(bench, query.host(), &rows, out.host_mut(), true);
    reference.expect("the reference takes every case");
    let ran = scene.run(bench, query.device(), &rows, out.device_mut(), false);
    let kind = Kind::Float(bench.activation());
    let name = format!("{}, inside {inside}", case.name());
    bench.compare("attend", &name, kind, &ran, &out);
}

/// A decoding sequence has the bits it has alone, whoever else is in the batch.
pub(super) fn alone_and_in_company(bench: &mut Bench<'_>) {
    for window in [None, Some(40)] {
        let case = Case {
            heads: (6, 2, 64),
            page_size: 16,
            window,
            soft_cap: None,
            sinks: false,
            sequences: (0..32).map(|i| (1 + i * 11, 1)).collect(),
            loud: 1.0,
        };
        let mut scene = Scene::new(bench, &case);
        let width = scene.heads.query_width();
        let query = bench.activations(32, width);
        let rows: Vec<_> = (0..32).map(|i| (i, 1 + i * 11, 1)).collect();
        let mut run = |bench: &mut Bench<'_>, range: std::ops::Range<usize>| {
            let mut out = bench.output(range.len(), width, false);
            let query = query.device().row_range(range.clone());
            scene
                .run(bench, query, &rows[range], out.device_mut(), false)
                .map(|()| bench.read(&out))
        };
        let together = run(bench, 0..32);
        let alone: Result<Vec<_>, _> = (0..32).map(|row| run(bench, row..row + 1)).collect();
        let error = match (together, alone) {
            (Ok(together), Ok(alone)) => Ok(differing(&together, &alone.concat())),
            (Err(error), _) | (_, Err(error)) => Err(error.to_string()),
        };
        let case = format!("alone and among 32, window {window:?}");
        bench.found("attend", &case, Kind::Exact, error);
    }
}

/// A prompt has the same bits whole, token by token, and in chunks.
pub(super) fn whole_and_in_chunks(bench: &mut Bench<'_>) {
    let length = 150;
    for window in [None, Some(33)] {
        let case = Case {
            heads: (6, 2, 64),
            page_size: 16,
            window,
            soft_cap: None,
            sinks: true,
            sequences: vec![(length, length)],
            loud: 1.0,
        };
        let mut scene = Scene::new(bench, &case);
        let width = scene.heads.query_width();
        let query = bench.activations(length, width);
        let mut run = |bench: &mut Bench<'_>, chunk: usize| {
            let mut found = Vec::new();
            for start in (0..length).step_by(chunk) {
                let end = (start + chunk).min(length);
                let mut out = bench.output(end - start, width, false);
                let query = query.device().row_range(start..end);
                let rows = [(0, end, end - start)];
                scene.run(bench, query, &rows, out.device_mut(), false)?;
                found.extend(bench.read(&out));
            }
            Ok::<_, OpError>(found)
        };
        let whole = run(bench, length);
        for chunk in [1, 7, 32, 64] {
            let error = match (&whole, run(bench, chunk)) {
                (Ok(whole), Ok(chunked)) => Ok(differing(whole, &chunked)),
                (Err(error), _) => Err(error.to_string()),
                (_, Err(error)) => Err(error.to_string()),
            };
            let case = format!("whole and by {chunk}, window {window:?}");
            bench.found("attend", &case, Kind::Exact, error);
        }
    }
}
