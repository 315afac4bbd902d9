//! Dense GEMMs of real models: correct, and how near to the speed of memory or of the tensor cores.

use cuda::CudaDevice;
use tensor::DType;

use crate::bench::{MEMORY, Matrix, TENSOR, distance, linear, time, weight};

/// Name, outputs, inputs, results in floats.
const SHAPES: [(&str, usize, usize, bool); 10] = [
    ("8B qkv", 6144, 4096, false),
    ("8B o", 4096, 4096, false),
    ("8B gate_up", 24576, 4096, false),
    ("8B down", 4096, 12288, false),
    ("8B head", 151_936, 4096, true),
    ("1.5B qkv", 2048, 1536, false),
    ("1.5B o", 1536, 1536, false),
    ("1.5B gate_up", 17920, 1536, false),
    ("1.5B down", 1536, 8960, false),
    ("1.5B head", 151_936, 1536, true),
];

/// Bytes of weights that are read in turn, so that none is found in L2.
const TURNS: usize = 256 << 20;

pub(crate) fn run(device: &CudaDevice) -> bool {
    let mut well = true;
    for (name, outputs, inputs, wide) in SHAPES {
        let began = std::time::Instant::now();
        let copies = (TURNS / (2 * outputs * inputs)).clamp(1, 24);
        let weights: Vec<_> = (0..copies)
            .map(|i| weight(device, outputs, inputs, i as u64))
            .collect();
        println!(
            "{name} {outputs}×{inputs}, {copies} weights loaded in {:.2} s",
            began.elapsed().as_secs_f64()
        );
        for line in device.describe_gemms(outputs, inputs) {
            println!("    {line}");
        }
        let dtype = if wide { DType::F32 } else { DType::BF16 };
        for rows in [1, 8, 16, 32, 64, 128, 256, 2048] {
            if wide && rows > 256 {
                continue;
            }
            let x = Matrix::random(device, rows, inputs, 7);
            let mut out = Matrix::new(device, rows, outputs, dtype);
            let us = time(device, (20 / copies).max(1) * copies, |turn| {
                linear(device, x.view(), &weights[turn % copies], out.view_mut())
            });
            let bytes = 2 * (outputs * inputs + rows * inputs) + dtype.size() * rows * outputs;
            let floor =
                (bytes as f64 / MEMORY).max(2.0 * (rows * outputs * inputs) as f64 / TENSOR);
            println!(
                "{name:13} {rows:5} rows {us:9.2} µs, floor {floor:9.2} µs, {:5.1} %",
                100.0 * floor / us
            );
            if rows == 8 || rows == 64 {
                well &= agrees(device, &weights[0], &x, &mut out, name);
            }
        }
    }
    well
}

/// Rows alone and in a batch give nearly equal results: the candidates check each other.
fn agrees(
    device: &CudaDevice,
    weight: &ops::Weight,
    x: &Matrix,
    out: &mut Matrix,
    name: &str,
) -> bool {
    linear(device, x.view(), weight, out.view_mut()).expect("a GEMM");
    let together = out.read(device);
    let rows = [0, x.rows / 2, x.rows - 1];
    let worst = rows
        .into_iter()
        .map(|row| {
            let (one, to) = (
                x.view().row_range(row..row + 1),
                out.view_mut().row_range(0..1),
            );
            linear(device, one, weight, to).expect("a GEMM");
            let alone = out.read(device);
            distance(
                &alone[..out.cols],
                &together[row * out.cols..(row + 1) * out.cols],
            )
        })
        .fold(0.0, f64::max);
    println!(
        "{name:13} {:5} rows against one by one: {worst:.1e}",
        x.rows
    );
    worst < 8e-3
}
