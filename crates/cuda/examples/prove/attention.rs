//! Attention: the two kernels against each other and a plain loop, and against the yardsticks of an H200.

use cuda::CudaDevice;
use ops::{Attend, Device as _, Heads, KvCache, OpError, RaggedBatch};
use tensor::{DType, View, ViewMut};

use crate::bench::{self, MEMORY, Matrix, TENSOR, distance, normals, takes_heads};

const HEADS: Heads = Heads {
    query: 32,
    kv: 8,
    dim: 128,
};

/// Sequences in pages that lie scattered, for one or more layers.
pub(crate) struct Scene {
    heads: Heads,
    page_size: usize,
    pub(crate) layers: Vec<(Matrix, Matrix)>,
    page_table: Matrix,
    starts: Matrix,
    lengths: Matrix,
    table_rows: Matrix,
    pub(crate) tokens: usize,
    max_query: usize,
    sight: Sight,
    sinks: Matrix,
}

/// What scores go through besides a scale.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sight {
    window: Option<usize>,
    soft_cap: Option<f32>,
    sinks: bool,
}

impl Scene {
    /// Sequences as (length, new tokens), keys and values of two bytes.
    pub(crate) fn new(
        device: &CudaDevice,
        heads: Heads,
        page_size: usize,
        sequences: &[(usize, usize)],
        layers: usize,
    ) -> Self {
        Self::of(device, heads, page_size, sequences, (layers, DType::BF16))
    }

    /// As [`Self::new`], keys and values of a given type.
    pub(crate) fn of(
        device: &CudaDevice,
        heads: Heads,
        page_size: usize,
        sequences: &[(usize, usize)],
        (layers, kv): (usize, DType),
    ) -> Self {
        let pages: Vec<usize> = sequences.iter().map(|s| s.0.div_ceil(page_size)).collect();
        let (all, widest) = (
            pages.iter().sum::<usize>(),
            pages.iter().copied().max().unwrap_or(1),
        );
        // A fixed stride that shares no divisor with the number of pages visits all of them in no order.
        let stride = (all / 2 + 1..2 * all + 2)
            .find(|&stride| divisor(stride, all) == 1)
            .unwrap_or(1);
        let mut table = vec![0u32; sequences.len() * widest];
        let mut next = 0;
        for (row, &count) in pages.iter().enumerate() {
            for column in 0..count {
                table[row * widest + column] = (next * stride % all) as u32;
                next += 1;
            }
        }
        let starts: Vec<u32> = std::iter::once(0)
            .chain(sequences.iter().scan(0, |sum, s| {
                *sum += s.1 as u32;
                Some(*sum)
            }))
            .collect();
        let lengths: Vec<u32> = sequences.iter().map(|s| s.0 as u32).collect();
        let rows: Vec<u32> = (0..sequences.len() as u32).collect();
        let slots = all * page_size;
        let cache = |seed| match kv {
            DType::F8E4M3 => Matrix::random_bytes(device, slots, heads.kv_width(), seed),
            _ => Matrix::random(device, slots, heads.kv_width(), seed),
        };
        Self {
            heads,
            page_size,
            layers: (0..layers as u64)
                .map(|i| (cache(2 * i), cache(2 * i + 1)))
                .collect(),
            page_table: Matrix::int_matrix(device, sequences.len(), widest, &table),
            starts: Matrix::ints(device, &starts),
            lengths: Matrix::ints(device, &lengths),
            table_rows: Matrix::ints(device, &rows),
            tokens: sequences.iter().map(|s| s.1).sum(),
            max_query: sequences.iter().map(|s| s.1).max().unwrap_or(0),
            sight: Sight::default(),
            sinks: Matrix::floats(device, 1, heads.query, DType::F32, &normals(heads.query, 4)),
        }
    }

    pub(crate) fn attend(
        &mut self,
        device: &CudaDevice,
        layer: usize,
        query: View<'_>,
        out: ViewMut<'_>,
    ) -> Result<(), OpError> {
        let layer = layer % self.layers.len();
        let (keys, values) = &mut self.layers[layer];
        device.kernels().attend(Attend {
            query,
            cache: KvCache::new(keys.view_mut(), values.view_mut()),
            batch: RaggedBatch {
                starts: self.starts.view(),
                lengths: self.lengths.view(),
                table_rows: self.table_rows.view(),
                page_table: self.page_table.view(),
                page_size: self.page_size,
                max_query: self.max_query,
            },
            heads: self.heads,
            scale: 1.0 / (self.heads.dim as f32).sqrt(),
            window: self.sight.window,
            soft_cap: self.sight.soft_cap,
            sinks: self.sight.sinks.then(|| self.sinks.view()),
            out,
        })
    }
}

fn divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// Heads, page size, and sequences as (length, new tokens).
pub(crate) type Case<'a> = (Heads, usize, &'a [(usize, usize)]);

/// How prompts look at what is before them.
const SIGHTS: [Sight; 3] = [
    Sight {
        window: None,
        soft_cap: None,
        sinks: false,
    },
    Sight {
        window: Some(100),
        soft_cap: None,
        sinks: false,
    },
    Sight {
        window: Some(517),
        soft_cap: Some(30.0),
        sinks: true,
    },
];

/// Long prompts with and without a cached prefix: tiles give what the split kernel gives, which takes any stride.
pub(crate) fn check(device: &CudaDevice) -> bool {
    let mut well = true;
    let heads = |query, kv, dim| Heads { query, kv, dim };
    let cases: [Case; 8] = [
        (HEADS, 64, &[(1500, 800), (700, 700), (300, 1), (129, 128)]),
        (HEADS, 16, &[(2048, 2048)]),
        (heads(12, 2, 128), 32, &[(900, 900), (1000, 3), (77, 77)]),
        (heads(8, 4, 64), 64, &[(1100, 1100), (640, 200)]),
        (heads(8, 4, 256), 64, &[(700, 500), (333, 333)]),
        (heads(28, 4, 96), 8, &[(600, 600), (500, 20)]),
        (
            heads(4, 1, 72),
            1,
            &[(130, 127), (257, 9), (5, 0), (64, 64)],
        ),
        (heads(6, 3, 128), 24, &[(500, 33); 40]),
    ];
    for kv in [DType::BF16, DType::F8E4M3] {
        for case in cases {
            for sight in SIGHTS {
                well &= tiles_agree(device, case, kv, sight);
            }
        }
    }
    // More than there is room for once it is widened: the second and the third row are read as they are.
    let wide: Case = (
        heads(32, 32, 128),
        64,
        &[(20_000, 130), (16_000, 20), (50, 50), (70, 1)],
    );
    well && tiles_agree(device, wide, DType::F8E4M3, SIGHTS[0])
}

fn tiles_agree(
    device: &CudaDevice,
    (heads, page_size, sequences): Case,
    kv: DType,
    sight: Sight,
) -> bool {
    if !takes_heads(device, heads) {
        return true;
    }
    let mut scene = Scene::of(device, heads, page_size, sequences, (1, kv));
    scene.sight = sight;
    let width = heads.query_width();
    let query = Matrix::random(device, scene.tokens, width + 8, 77);
    // An odd place in memory keeps the tile kernel out.
    let mut out = Matrix::new(device, scene.tokens, width + 2, DType::BF16);
    let mut odd = Matrix::new(device, scene.tokens, width + 1, DType::BF16);
    let asked = query.view().columns(0..width);
    scene
        .attend(device, 0, asked, out.view_mut().columns(0..width))
        .expect("attention");
    scene
        .attend(device, 0, asked, odd.view_mut().columns(0..width))
        .expect("attention");
    let rows = |matrix: &Matrix| -> Vec<f32> {
        matrix
            .read(device)
            .chunks(matrix.cols)
            .flat_map(|row| row[..width].to_vec())
            .collect()
    };
    let (tiles, split) = (rows(&out), rows(&odd));
    let error = distance(&tiles, &split);
    let some = &sequences[..sequences.len().min(4)];
    println!(
        "{heads:?} page {page_size} {kv} {sight:?} {some:?}: tiles and split differ by {error:.1e}"
    );
    error < 6e-3
}

/// Rows, new tokens, cached tokens, what cuDNN and FlashInfer take (µs).
const DECODES: [(usize, usize, f64, f64); 6] = [
    (1, 1024, 0.0, 0.0),
    (1, 4096, 24.5, 14.2),
    (16, 4096, 65.8, 102.5),
    (64, 1536, 0.0, 0.0),
    (64, 4096, 246.7, 383.0),
    (256, 2048, 489.9, 712.0),
];
const PREFILLS: [(usize, usize, f64, f64); 5] = [
    (16, 512, 97.9, 137.0),
    (8, 1024, 0.0, 0.0),
    (8, 2048, 496.0, 572.0),
    (4, 8192, 3558.0, 4057.0),
    (1, 32768, 14541.0, 15869.0),
];

pub(crate) fn time_decode(
    device: &CudaDevice,
    heads: Heads,
    page_size: usize,
    rows: usize,
    length: usize,
) -> (f64, f64) {
    let bytes = 4 * rows * length * heads.kv_width();
    let layers = ((192 << 20) / bytes).clamp(1, 16);
    let mut scene = Scene::new(device, heads, page_size, &vec![(length, 1); rows], layers);
    let query = Matrix::random(device, rows, heads.query_width(), 5);
    let mut out = Matrix::new(device, rows, heads.query_width(), DType::BF16);
    let us = bench::time(device, 16.max(layers), |turn| {
        scene.attend(device, turn, query.view(), out.view_mut())
    });
    (us, bytes as f64 / us / 1e3)
}

pub(crate) fn time(device: &CudaDevice) -> bool {
    println!("decode, 32 query / 8 key heads of 128, bf16; (cuDNN, FlashInfer: given figures)");
    for (rows, length, cudnn, flashinfer) in DECODES {
        for page_size in [16, 64] {
            let (us, speed) = time_decode(device, HEADS, page_size, rows, length);
            let floor = 1e3 * speed * us / MEMORY;
            println!(
                "decode {rows:3} × {length:5} page {page_size:2}: {us:8.1} µs {speed:5.0} GB/s, {:4.1} % of memory; cuDNN {cudnn:6.1}, FlashInfer {flashinfer:6.1}",
                100.0 * floor / us
            );
        }
    }
    let small = Heads {
        query: 12,
        kv: 2,
        dim: 128,
    };
    for (rows, length) in [(1, 1024), (64, 1536)] {
        let (us, speed) = time_decode(device, small, 64, rows, length);
        println!("decode {rows:3} × {length:5}, 12/2 heads: {us:8.1} µs {speed:5.0} GB/s");
    }
    let ragged: Vec<(usize, usize)> = (0..64).map(|i| (64 + i * 46, 1)).collect();
    let mut scene = Scene::new(device, HEADS, 64, &ragged, 2);
    let query = Matrix::random(device, 64, HEADS.query_width(), 5);
    let mut out = Matrix::new(device, 64, HEADS.query_width(), DType::BF16);
    let us = bench::time(device, 16, |turn| {
        scene.attend(device, turn, query.view(), out.view_mut())
    });
    let bytes: usize = ragged.iter().map(|s| 4 * s.0 * HEADS.kv_width()).sum();
    println!(
        "decode 64 ragged (64 to 2962): {us:8.1} µs {:5.0} GB/s",
        bytes as f64 / us / 1e3
    );
    for (rows, length, cudnn, flashinfer) in PREFILLS {
        for page_size in [16, 64] {
            let mut scene = Scene::new(device, HEADS, page_size, &vec![(length, length); rows], 1);
            let query = Matrix::random(device, rows * length, HEADS.query_width(), 5);
            let mut out = Matrix::new(device, rows * length, HEADS.query_width(), DType::BF16);
            let us = time_few(device, length, |turn| {
                scene.attend(device, turn, query.view(), out.view_mut())
            });
            let work = 2.0 * rows as f64 * (length as f64).powi(2) * HEADS.query_width() as f64;
            println!(
                "prefill {rows:2} × {length:5} page {page_size:2}: {us:8.1} µs {:4.0} TFLOP/s, {:4.1} % of tensor; cuDNN {cudnn:7.1}, FlashInfer {flashinfer:7.1}",
                work / us / 1e6,
                100.0 * work / TENSOR / us
            );
        }
    }
    true
}

fn time_few(
    device: &CudaDevice,
    length: usize,
    run: impl FnMut(usize) -> Result<(), OpError>,
) -> f64 {
    bench::time(device, if length > 4096 { 2 } else { 8 }, run)
}
