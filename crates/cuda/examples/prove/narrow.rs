//! Keys and values of one byte: stored as rounded, and attended as what was stored.

use cuda::CudaDevice;
use ops::{Attend, Device as _, Heads, KvCache, RaggedBatch, StoreKv};
use tensor::DType;

use crate::attention::Scene;
use crate::bench::{self, Matrix, distance, normals, takes_heads};

/// The nearest number of four exponent bits and three more.
fn rounded(value: f32) -> f32 {
    let size = value.abs();
    if size == 0.0 {
        return value;
    }
    let exponent = size.log2().floor().max(-6.0);
    let step = (exponent - 3.0).exp2();
    ((size / step).round_ties_even() * step)
        .min(448.0)
        .copysign(value)
}

pub(crate) fn run(device: &CudaDevice) -> bool {
    let mut well = true;
    for (heads, sequences) in [
        (
            Heads {
                query: 8,
                kv: 2,
                dim: 128,
            },
            [(700, 1), (33, 1), (129, 1)].as_slice(),
        ),
        (
            Heads {
                query: 8,
                kv: 2,
                dim: 128,
            },
            &[(700, 300), (33, 33), (129, 1)],
        ),
        (
            Heads {
                query: 6,
                kv: 2,
                dim: 64,
            },
            &[(300, 1), (1, 1)],
        ),
        (
            Heads {
                query: 2,
                kv: 1,
                dim: 256,
            },
            &[(200, 1), (64, 64)],
        ),
    ] {
        well &= agrees(device, heads, sequences);
    }
    let heads = Heads {
        query: 32,
        kv: 8,
        dim: 128,
    };
    for (rows, length) in [(1, 4096), (64, 4096)] {
        let slots = rows * length;
        let mut keys = Matrix::new(device, slots, heads.kv_width(), DType::F8E4M3);
        let mut values = Matrix::new(device, slots, heads.kv_width(), DType::F8E4M3);
        let tables = Tables::new(device, &vec![(length, 1); rows]);
        let query = Matrix::random(device, rows, heads.query_width(), 5);
        let mut out = Matrix::new(device, rows, heads.query_width(), DType::BF16);
        let us = bench::time(device, 16, |_| {
            let cache = KvCache::new(keys.view_mut(), values.view_mut());
            device
                .kernels()
                .attend(tables.attend(heads, &query, cache, &mut out))
        });
        let bytes = 2 * slots * heads.kv_width();
        println!(
            "decode {rows:3} × {length} fp8 (zeros): {us:8.1} µs {:5.0} GB/s",
            bytes as f64 / us / 1e3
        );
    }
    prompts(device);
    well
}

/// Prompts as (length, new tokens) of several rows: a cache of bytes beside one of bf16.
fn prompts(device: &CudaDevice) {
    let heads = Heads {
        query: 32,
        kv: 8,
        dim: 128,
    };
    for (rows, length, fresh) in [
        (16, 512, 512),
        (8, 1024, 1024),
        (8, 2048, 2048),
        (4, 8192, 8192),
        (8, 4096, 512),
        (1, 32_768, 4096),
    ] {
        let sequences = vec![(length, fresh); rows];
        let [wide, narrow] = [DType::BF16, DType::F8E4M3].map(|kv| {
            let mut scene = Scene::of(device, heads, 64, &sequences, (1, kv));
            let query = Matrix::random(device, rows * fresh, heads.query_width(), 5);
            let mut out = Matrix::new(device, rows * fresh, heads.query_width(), DType::BF16);
            bench::time(device, if length > 4096 { 2 } else { 8 }, |turn| {
                scene.attend(device, turn, query.view(), out.view_mut())
            })
        });
        println!(
            "prompts {rows:2} × {fresh:5} of {length:5}: bf16 {wide:8.1} µs, fp8 {narrow:8.1} µs, {:.2} times as long",
            narrow / wide
        );
    }
}

/// Sequences that lie one after the other in pages of one token's row times 16.
struct Tables {
    starts: Matrix,
    lengths: Matrix,
    rows: Matrix,
    pages: Matrix,
    max_query: usize,
}

const PAGE: usize = 16;

impl Tables {
    /// Sequences as (length, new tokens).
    fn new(device: &CudaDevice, sequences: &[(usize, usize)]) -> Self {
        let widest = sequences
            .iter()
            .map(|(length, _)| length.div_ceil(PAGE))
            .max()
            .unwrap_or(1);
        let mut pages = vec![0u32; sequences.len() * widest];
        let mut next = 0;
        for (row, (length, _)) in sequences.iter().enumerate() {
            for column in 0..length.div_ceil(PAGE) {
                pages[row * widest + column] = next;
                next += 1;
            }
        }
        let mut starts = vec![0];
        for (row, (_, fresh)) in sequences.iter().enumerate() {
            starts.push(starts[row] + *fresh as u32);
        }
        let words: Vec<u32> = sequences.iter().map(|s| s.0 as u32).collect();
        let rows: Vec<u32> = (0..sequences.len() as u32).collect();
        Self {
            starts: Matrix::ints(device, &starts),
            lengths: Matrix::ints(device, &words),
            rows: Matrix::ints(device, &rows),
            pages: Matrix::int_matrix(device, sequences.len(), widest, &pages),
            max_query: sequences.iter().map(|s| s.1).max().unwrap_or(0),
        }
    }

    fn attend<'a>(
        &'a self,
        heads: Heads,
        query: &'a Matrix,
        cache: KvCache<'a>,
        out: &'a mut Matrix,
    ) -> Attend<'a> {
        Attend {
            query: query.view(),
            cache,
            batch: RaggedBatch {
                starts: self.starts.view(),
                lengths: self.lengths.view(),
                table_rows: self.rows.view(),
                page_table: self.pages.view(),
                page_size: PAGE,
                max_query: self.max_query,
            },
            heads,
            scale: 1.0 / (heads.dim as f32).sqrt(),
            window: None,
            soft_cap: None,
            sinks: None,
            out: out.view_mut(),
        }
    }
}

/// Values that a byte holds exactly give the same results from bytes as from bf16.
pub(crate) fn agrees(device: &CudaDevice, heads: Heads, sequences: &[(usize, usize)]) -> bool {
    if !takes_heads(device, heads) {
        return true;
    }
    let slots: usize = sequences
        .iter()
        .map(|(length, _)| length.next_multiple_of(PAGE))
        .sum();
    let tokens = sequences.iter().map(|s| s.1).sum();
    let numbers = |seed| -> Vec<f32> {
        normals(slots * heads.kv_width(), seed)
            .into_iter()
            .map(rounded)
            .collect()
    };
    let key = Matrix::floats(device, slots, heads.kv_width(), DType::BF16, &numbers(1));
    let value = Matrix::floats(device, slots, heads.kv_width(), DType::BF16, &numbers(2));
    let places: Vec<u32> = (0..slots as u32).collect();
    let places = Matrix::ints(device, &places);
    let tables = Tables::new(device, sequences);
    let query = Matrix::random(device, tokens, heads.query_width(), 3);
    let results = [DType::BF16, DType::F8E4M3].map(|dtype| {
        let mut keys = Matrix::new(device, slots, heads.kv_width(), dtype);
        let mut values = Matrix::new(device, slots, heads.kv_width(), dtype);
        let mut out = Matrix::new(device, tokens, heads.query_width(), DType::BF16);
        let store = StoreKv {
            key: key.view(),
            value: value.view(),
            slots: places.view(),
            cache: KvCache::new(keys.view_mut(), values.view_mut()),
        };
        device.kernels().store_kv(store).expect("stored");
        let cache = KvCache::new(keys.view_mut(), values.view_mut());
        device
            .kernels()
            .attend(tables.attend(heads, &query, cache, &mut out))
            .expect("attended");
        out.read(device)
    });
    let error = distance(&results[1], &results[0]);
    println!("{heads:?} {sequences:?}: bytes and bf16 differ by {error:.1e}");
    error < 6e-3
}
