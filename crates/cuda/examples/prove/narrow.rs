//! Keys and values of one byte: stored as rounded, and attended as what was stored.

use cuda::CudaDevice;
use ops::{Attend, Device as _, Heads, KvCache, RaggedBatch, StoreKv};
use tensor::DType;

use crate::bench::{self, Matrix, distance, normals};

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
    for (heads, lengths) in [
        (
            Heads {
                query: 8,
                kv: 2,
                dim: 128,
            },
            &[700usize, 33, 129] as &[usize],
        ),
        (
            Heads {
                query: 6,
                kv: 2,
                dim: 64,
            },
            &[300, 1],
        ),
        (
            Heads {
                query: 2,
                kv: 1,
                dim: 256,
            },
            &[200, 64],
        ),
    ] {
        well &= agrees(device, heads, lengths);
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
        let tables = Tables::new(device, &vec![length; rows]);
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
    well
}

/// Sequences that lie one after the other in pages of one token's row times 16.
struct Tables {
    starts: Matrix,
    lengths: Matrix,
    rows: Matrix,
    pages: Matrix,
}

const PAGE: usize = 16;

impl Tables {
    fn new(device: &CudaDevice, lengths: &[usize]) -> Self {
        let widest = lengths
            .iter()
            .map(|length| length.div_ceil(PAGE))
            .max()
            .unwrap_or(1);
        let mut pages = vec![0u32; lengths.len() * widest];
        let mut next = 0;
        for (row, length) in lengths.iter().enumerate() {
            for column in 0..length.div_ceil(PAGE) {
                pages[row * widest + column] = next;
                next += 1;
            }
        }
        let count = lengths.len() as u32;
        let starts: Vec<u32> = (0..=count).collect();
        let words: Vec<u32> = lengths.iter().map(|&length| length as u32).collect();
        Self {
            starts: Matrix::ints(device, &starts),
            lengths: Matrix::ints(device, &words),
            rows: Matrix::ints(device, &starts[..lengths.len()]),
            pages: Matrix::int_matrix(device, lengths.len(), widest, &pages),
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
                max_query: 1,
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
pub(crate) fn agrees(device: &CudaDevice, heads: Heads, lengths: &[usize]) -> bool {
    let slots: usize = lengths
        .iter()
        .map(|length| length.next_multiple_of(PAGE))
        .sum();
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
    let tables = Tables::new(device, lengths);
    let query = Matrix::random(device, lengths.len(), heads.query_width(), 3);
    let results = [DType::BF16, DType::F8E4M3].map(|dtype| {
        let mut keys = Matrix::new(device, slots, heads.kv_width(), dtype);
        let mut values = Matrix::new(device, slots, heads.kv_width(), dtype);
        let mut out = Matrix::new(device, lengths.len(), heads.query_width(), DType::BF16);
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
    println!("{heads:?} {lengths:?}: bytes and bf16 differ by {error:.1e}");
    error < 6e-3
}
