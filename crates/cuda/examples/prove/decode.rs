//! Decoding as it comes in a step: new tokens are normalised, rotated and stored, then attend; in two kernels and in one.

use std::fmt::Write as _;

use cuda::CudaDevice;
use cuda::fused::RopeAttend;
use ops::{Attend, Device as _, HeadNorm, Heads, KvCache, OpError, RaggedBatch, RopeStoreKv};
use tensor::DType;

use crate::bench::{MEMORY, Matrix, distance, normals, repeated, takes_heads, time};

const LARGE: Heads = Heads {
    query: 32,
    kv: 8,
    dim: 128,
};
const SMALL: Heads = Heads {
    query: 12,
    kv: 2,
    dim: 128,
};
const PAGE: usize = 64;

/// One step of some layers: every sequence has one new token.
pub(crate) struct Step {
    heads: Heads,
    layers: Vec<(Matrix, Matrix)>,
    pub(crate) qkv: Matrix,
    norm: Matrix,
    table: Matrix,
    positions: Matrix,
    slots: Matrix,
    starts: Matrix,
    lengths: Matrix,
    table_rows: Matrix,
    page_table: Matrix,
    pub(crate) out: Matrix,
}

impl Step {
    /// Sequences one after the other in pages; a page lies `rows` pages after the previous one.
    pub(crate) fn new(
        device: &CudaDevice,
        heads: Heads,
        lengths: &[usize],
        kv: DType,
        layers: usize,
    ) -> Self {
        let rows = lengths.len();
        let widest = lengths.iter().copied().max().unwrap_or(1).div_ceil(PAGE);
        let page = |row: usize, column: usize| (column * rows + row) as u32;
        let pages: Vec<u32> = (0..rows * widest)
            .map(|i| page(i / widest, i % widest))
            .collect();
        let newest: Vec<u32> = lengths.iter().map(|&length| length as u32 - 1).collect();
        let slots: Vec<u32> = lengths
            .iter()
            .enumerate()
            .map(|(row, &length)| {
                page(row, (length - 1) / PAGE) * PAGE as u32 + ((length - 1) % PAGE) as u32
            })
            .collect();
        let count: Vec<u32> = (0..=rows as u32).collect();
        let most = widest * PAGE;
        let cache = |seed| match kv {
            DType::F8E4M3 => Matrix::random_bytes(device, rows * most, heads.kv_width(), seed),
            _ => Matrix::random(device, rows * most, heads.kv_width(), seed),
        };
        Self {
            heads,
            layers: (0..layers as u64)
                .map(|i| (cache(2 * i), cache(2 * i + 1)))
                .collect(),
            qkv: Matrix::random(device, rows, heads.query_width() + 2 * heads.kv_width(), 5),
            norm: Matrix::floats(device, 1, heads.dim, DType::F32, &normals(heads.dim, 9)),
            table: Matrix::floats(
                device,
                most,
                heads.dim,
                DType::F32,
                &repeated(most * heads.dim, 1),
            ),
            positions: Matrix::ints(device, &newest),
            slots: Matrix::ints(device, &slots),
            starts: Matrix::ints(device, &count),
            lengths: Matrix::ints(device, &newest.iter().map(|p| p + 1).collect::<Vec<_>>()),
            table_rows: Matrix::ints(device, &count[..rows]),
            page_table: Matrix::int_matrix(device, rows, widest, &pages),
            out: Matrix::new(device, rows, heads.query_width(), DType::BF16),
        }
    }

    /// Runs one layer, in one op or in two.
    pub(crate) fn run(
        &mut self,
        device: &CudaDevice,
        layer: usize,
        fused: bool,
    ) -> Result<(), OpError> {
        let heads = self.heads;
        let layer = layer % self.layers.len();
        let (keys, values) = &mut self.layers[layer];
        let cache = KvCache::new(keys.view_mut(), values.view_mut());
        let (mut query, kv) = self.qkv.view_mut().split_columns(heads.query_width());
        let (key, value) = kv.split_columns(heads.kv_width());
        let norm = Some(HeadNorm {
            weight: self.norm.view(),
            eps: 1e-6,
        });
        let batch = RaggedBatch {
            starts: self.starts.view(),
            lengths: self.lengths.view(),
            table_rows: self.table_rows.view(),
            page_table: self.page_table.view(),
            page_size: PAGE,
            max_query: 1,
        };
        let scale = 1.0 / (heads.dim as f32).sqrt();
        let rope = RopeStoreKv {
            query: query.reborrow(),
            key,
            value: value.into_view(),
            heads,
            query_norm: norm,
            key_norm: norm,
            positions: self.positions.view(),
            table: self.table.view(),
            slots: self.slots.view(),
            cache,
        };
        let kernels = device.kernels();
        if fused {
            return device.launch_rope_attend(RopeAttend {
                rope,
                batch,
                scale,
                window: None,
                soft_cap: None,
                sinks: None,
                out: self.out.view_mut(),
            });
        }
        kernels.rope_store_kv(rope)?;
        kernels.attend(Attend {
            query: query.into_view(),
            cache,
            batch,
            heads,
            scale,
            window: None,
            soft_cap: None,
            sinks: None,
            out: self.out.view_mut(),
        })
    }
}

/// One kernel gives what two give; of one or two rows with heads of 128 it is the megakernel's, which adds up in another order
/// before it rounds.
pub(crate) fn agrees(device: &CudaDevice, heads: Heads, lengths: &[usize], kv: DType) -> bool {
    if !takes_heads(device, heads) {
        return true;
    }
    let mut step = Step::new(device, heads, lengths, kv, 1);
    step.run(device, 0, true).expect("one kernel");
    let one = step.out.read(device);
    // Last: it rotates in place.
    step.run(device, 0, false).expect("two kernels");
    let error = distance(&one, &step.out.read(device));
    println!("{heads:?} {lengths:?} {kv}: one kernel and two differ by {error:.1e}");
    let chained = lengths.len() <= 2 && heads.dim == 128;
    error < if chained { 2e-3 } else { 1e-6 }
}

pub(crate) fn check(device: &CudaDevice) -> bool {
    let wide = Heads {
        query: 8,
        kv: 2,
        dim: 256,
    };
    let cases: [(Heads, &[usize]); 4] = [
        (LARGE, &[1088]),
        (LARGE, &[1, 64, 128, 129, 700, 4096, 2177, 33]),
        (SMALL, &[1088, 5]),
        (wide, &[300, 1000]),
    ];
    let mut well = true;
    for (heads, lengths) in cases {
        for kv in [DType::BF16, DType::F8E4M3] {
            well &= agrees(device, heads, lengths, kv);
        }
    }
    well
}

pub(crate) fn run(device: &CudaDevice) -> bool {
    let well = check(device);
    for (heads, rows, length) in [
        (LARGE, 1, 1088),
        (LARGE, 1, 4096),
        (LARGE, 8, 1088),
        (LARGE, 16, 4096),
        (LARGE, 64, 1536),
        (LARGE, 64, 4096),
        (LARGE, 256, 2048),
        (SMALL, 1, 1088),
        (SMALL, 8, 1088),
        (SMALL, 64, 1536),
    ] {
        let mut line = format!(
            "{:2}/{} heads, {rows:3} × {length:4}:",
            heads.query, heads.kv
        );
        for kv in [DType::BF16, DType::F8E4M3] {
            let bytes = 2 * kv.size() * rows * length * heads.kv_width();
            let layers = ((192 << 20) / bytes).clamp(1, 16);
            let mut step = Step::new(device, heads, &vec![length; rows], kv, layers);
            let many = 16.max(layers);
            let two = time(device, many, |turn| step.run(device, turn, false));
            let one = time(device, many, |turn| step.run(device, turn, true));
            let _ = write!(
                line,
                " {kv} {two:6.1} µs, in one {one:6.1} µs = {:4.0} GB/s (floor {:5.1});",
                bytes as f64 / one / 1e3,
                bytes as f64 / MEMORY
            );
        }
        println!("{line}");
    }
    well
}
