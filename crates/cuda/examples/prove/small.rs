//! Ops that only move memory, against the time that moving it takes.

use cuda::CudaDevice;
use ops::op::Activation;
use ops::{
    AddRmsNorm, Device as _, Draw, Embed, GatedActivation, HeadNorm, Heads, KvCache, LogProbs,
    OpError, RmsNorm, RopeStoreKv, Sample, SampleParams,
};
use tensor::DType;

use crate::bench::{MEMORY, Matrix, repeated, time, weight};

const HIDDEN: usize = 4096;
const VOCABULARY: usize = 151_936;

fn show(name: &str, rows: usize, bytes: usize, us: f64) {
    let floor = bytes as f64 / MEMORY;
    println!(
        "{name:22} {rows:5} rows {us:9.2} µs, floor {floor:8.2} µs, {:6.0} GB/s",
        bytes as f64 / us / 1e3
    );
}

pub(crate) fn run(device: &CudaDevice) -> bool {
    for rows in [1, 64, 256, 4096, 8192] {
        norms(device, rows);
        rope(device, rows);
        activation(device, rows);
    }
    embedding(device);
    for rows in [1, 64, 256] {
        sampling(device, rows);
    }
    true
}

/// Enough copies of the inputs that the cache does not hold them.
fn turns(bytes: usize) -> usize {
    ((192 << 20) / bytes.max(1)).clamp(2, 16)
}

fn norms(device: &CudaDevice, rows: usize) {
    let weight = Matrix::floats(device, 1, HIDDEN, DType::F32, &vec![1.0; HIDDEN]);
    let bytes = 2 * rows * HIDDEN;
    let count = turns(bytes);
    let xs: Vec<Matrix> = (0..count)
        .map(|i| Matrix::random(device, rows, HIDDEN, i as u64))
        .collect();
    let mut residuals: Vec<Matrix> = (0..count)
        .map(|i| Matrix::random(device, rows, HIDDEN, 50 + i as u64))
        .collect();
    let mut out = Matrix::new(device, rows, HIDDEN, DType::BF16);
    let kernels = device.kernels();
    let us = time(device, 32, |turn| {
        let x = xs[turn % count].view();
        kernels.rms_norm(RmsNorm {
            x,
            weight: weight.view(),
            eps: 1e-6,
            out: out.view_mut(),
        })
    });
    show("rms_norm", rows, 2 * bytes, us);
    let us = time(device, 32, |turn| {
        kernels.add_rms_norm(AddRmsNorm {
            x: xs[turn % count].view(),
            residual: residuals[turn % count].view_mut(),
            weight: weight.view(),
            eps: 1e-6,
            out: out.view_mut(),
        })
    });
    show("add_rms_norm", rows, 4 * bytes, us);
}

fn rope(device: &CudaDevice, rows: usize) {
    let heads = Heads {
        query: 32,
        kv: 8,
        dim: 128,
    };
    let width = heads.query_width() + 2 * heads.kv_width();
    let count = turns(2 * rows * width);
    let mut all: Vec<Matrix> = (0..count)
        .map(|i| Matrix::random(device, rows, width, i as u64))
        .collect();
    let table = Matrix::floats(
        device,
        rows,
        heads.dim,
        DType::F32,
        &repeated(rows * heads.dim, 1),
    );
    let norm = Matrix::floats(device, 1, heads.dim, DType::F32, &vec![1.0; heads.dim]);
    let places: Vec<u32> = (0..rows as u32).collect();
    let places = Matrix::ints(device, &places);
    let mut keys = Matrix::new(device, rows, heads.kv_width(), DType::BF16);
    let mut values = Matrix::new(device, rows, heads.kv_width(), DType::BF16);
    let us = time(device, 32, |turn| {
        let (query, kv) = all[turn % count]
            .view_mut()
            .split_columns(heads.query_width());
        let (key, value) = kv.split_columns(heads.kv_width());
        let head_norm = || {
            Some(HeadNorm {
                weight: norm.view(),
                eps: 1e-6,
            })
        };
        device.kernels().rope_store_kv(RopeStoreKv {
            query,
            key,
            value: value.into_view(),
            heads,
            query_norm: head_norm(),
            key_norm: head_norm(),
            positions: places.view(),
            table: table.view(),
            slots: places.view(),
            cache: KvCache::new(keys.view_mut(), values.view_mut()),
        })
    });
    show(
        "rope_store_kv, norms",
        rows,
        2 * rows * (2 * width + heads.kv_width()),
        us,
    );
}

fn activation(device: &CudaDevice, rows: usize) {
    let width = 12288;
    let count = turns(4 * rows * width);
    let inputs: Vec<Matrix> = (0..count)
        .map(|i| Matrix::random(device, rows, 2 * width, i as u64))
        .collect();
    let mut out = Matrix::new(device, rows, width, DType::BF16);
    let us = time(device, 32, |turn| {
        let gate_up = inputs[turn % count].view();
        device.kernels().gated_activation(GatedActivation {
            gate_up,
            activation: Activation::Silu,
            out: out.view_mut(),
        })
    });
    show("gated_activation", rows, 6 * rows * width, us);
}

fn embedding(device: &CudaDevice) {
    let table = weight(device, 32768, 1024, 1);
    let ids: Vec<u32> = (0..4096u32).map(|i| i * 7919 % 32768).collect();
    let ids = Matrix::ints(device, &ids);
    let mut out = Matrix::new(device, 4096, 1024, DType::BF16);
    let us = time(device, 16, |_| {
        device.kernels().embed(Embed {
            ids: ids.view(),
            table: &table,
            scale: 1.0,
            out: out.view_mut(),
        })
    });
    show("embed 1024", 4096, 4 * 4096 * 1024, us);
}

fn sampling(device: &CudaDevice, rows: usize) {
    let logits = Matrix::floats(
        device,
        rows,
        VOCABULARY,
        DType::F32,
        &repeated(rows * VOCABULARY, 3),
    );
    let numbers: Vec<u32> = (0..rows as u32).collect();
    let numbers = Matrix::ints(device, &numbers);
    let mut out = Matrix::new(device, 1, rows, DType::U32);
    let mut last = Matrix::new(device, 1, rows, DType::U32);
    let drawn = SampleParams {
        seed: 5,
        temperature: 0.8,
        ..SampleParams::GREEDY
    };
    let candidates = [
        ("sample greedy", SampleParams::GREEDY),
        ("sample all", drawn),
        (
            "sample top-k 50 p 0.95",
            SampleParams {
                top_k: 50,
                top_p: 0.95,
                ..drawn
            },
        ),
    ];
    for (name, params) in candidates {
        let bytes: Vec<u8> = (0..rows).flat_map(|_| bytes_of(&params)).collect();
        let params = Matrix::of_bytes(device, rows, SampleParams::BYTES, DType::U8, &bytes);
        let us = time(device, 8, |_| {
            device.kernels().sample(Sample {
                logits: logits.view(),
                draw: Draw {
                    params: params.view(),
                    positions: numbers.view(),
                    table_rows: numbers.view(),
                    out: out.view_mut(),
                    last: last.view_mut(),
                },
            })
        });
        show(name, rows, 4 * rows * VOCABULARY, us);
    }
    let temperatures = Matrix::floats(device, 1, rows, DType::F32, &vec![1.0; rows]);
    let targets = Matrix::int_matrix(device, rows, 1, &vec![9; rows]);
    let mut log_probs = Matrix::new(device, rows, 1, DType::F32);
    let us = time(device, 8, |_| -> Result<(), OpError> {
        device.kernels().log_probs(LogProbs {
            logits: logits.view(),
            targets: targets.view(),
            temperatures: temperatures.view(),
            log_probs: log_probs.view_mut(),
            top: None,
        })
    });
    show("log_probs", rows, 4 * rows * VOCABULARY, us);
}

pub(crate) fn bytes_of(params: &SampleParams) -> Vec<u8> {
    let words = [
        params.temperature.to_le_bytes(),
        params.top_p.to_le_bytes(),
        params.min_p.to_le_bytes(),
        params.top_k.to_le_bytes(),
        params.frequency.to_le_bytes(),
        params.presence.to_le_bytes(),
        params.repetition.to_le_bytes(),
        params.reserved.to_le_bytes(),
    ];
    params
        .seed
        .to_le_bytes()
        .into_iter()
        .chain(words.into_iter().flatten())
        .collect()
}
