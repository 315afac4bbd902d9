//! GEMMs with weights of eight-bit floats: every candidate correct, and how fast beside bf16.

use cuda::CudaDevice;
use ops::{Device as _, Float8Rows, HostValues, HostWeight, Weight, float8};
use tensor::DType;

use crate::bench::{MEMORY, Matrix, TENSOR, distance, linear, normals, time, weight};
use crate::handed;

/// Name, outputs, inputs.
const SHAPES: [(&str, usize, usize); 4] = [
    ("8B qkv", 6144, 4096),
    ("8B o", 4096, 4096),
    ("8B gate_up", 24576, 4096),
    ("8B down", 4096, 12288),
];
const ROWS: [usize; 8] = [1, 8, 16, 32, 64, 256, 1024, 2048];
/// Codes of a weight that differ. A prime, or rows would be alike, and so would what rounding does to their GEMMs.
const PART: usize = 262_139;
/// Bytes of weights that take turns, so that none is found in the cache.
const TURNS: usize = 256 << 20;
/// Operations a microsecond that the tensor cores do with eight-bit floats.
const TENSOR8: f64 = 1427e6;
/// Largest distance: activations in bf16, and activations rounded to eight bits.
const EXACT: f64 = 8e-3;
pub(crate) const ROUNDED: f64 = 4e-2;

pub(crate) fn run(device: &CudaDevice) -> bool {
    let mut well = true;
    for (name, outputs, inputs) in SHAPES {
        let plain = weight(device, outputs, inputs, 1);
        for (kind, block) in [("row", [1, inputs]), ("128", [128, 128])] {
            well &= timed(device, &format!("{name} {kind}"), (outputs, inputs), block);
        }
        for rows in ROWS {
            let x = Matrix::random(device, rows, inputs, 7);
            let mut out = Matrix::new(device, rows, outputs, DType::BF16);
            let us = time(device, 8, |_| {
                linear(device, x.view(), &plain, out.view_mut())
            });
            println!("{name:14} bf16 {rows:5} rows {us:9.2} µs (one weight, partly in the cache)");
        }
    }
    well
}

/// From one output that is looked at to the next: odd, so that few of them repeat.
fn step(outputs: usize) -> usize {
    outputs.div_ceil(64) | 1
}

/// About normal numbers in codes, repeated after some rows; large weights repeat a part of them.
pub(crate) fn float8_weight(
    device: &CudaDevice,
    (rows, cols): (usize, usize),
    block: [usize; 2],
    (seed, step): (u64, usize),
) -> (Weight, Vec<f32>) {
    let part: Vec<u8> = normals((rows * cols).min(PART), seed)
        .into_iter()
        .map(|number| float8::encode(number * 60.0))
        .collect();
    let codes: Vec<u8> = part.into_iter().cycle().take(rows * cols).collect();
    let blocks = rows.div_ceil(block[0]) * cols.div_ceil(block[1]);
    let size = 1.0 / (60.0 * (cols as f32).sqrt());
    let scales = (0..blocks).map(|i| size * (1 + i % 5) as f32 / 3.0);
    let host = HostWeight {
        rows,
        cols,
        values: HostValues::Float8(Float8Rows {
            codes: codes.into(),
            block,
            scales: scales.collect(),
        }),
    };
    let some = (0..rows).step_by(step).flat_map(|row| host.row(row));
    let numbers = some.collect();
    (device.load_weight(host).expect("a weight"), numbers)
}

/// Some outputs of every row count against sums on the host.
pub(crate) fn check(device: &CudaDevice) -> bool {
    let mut well = true;
    let counts = [1, 7, 16, 33, 64, 65, 130, 258, 1023];
    for (outputs, inputs) in [(6144, 4096), (384, 1160), (256, 512)] {
        for block in [[outputs, inputs], [1, inputs], [128, 128], [64, 256]] {
            well &= agrees(device, (outputs, inputs), block, &counts);
        }
    }
    handed::check(device) && well
}

/// The same of one weight and some row counts.
pub(crate) fn agrees(
    device: &CudaDevice,
    (outputs, inputs): (usize, usize),
    block: [usize; 2],
    counts: &[usize],
) -> bool {
    let mut well = true;
    let (weight, numbers) = float8_weight(device, (outputs, inputs), block, (5, step(outputs)));
    for line in device.describe_float8_gemms(outputs, inputs) {
        println!("    {line}");
    }
    for &rows in counts {
        let x = Matrix::random(device, rows, inputs, 9);
        let mut out = Matrix::new(device, rows, outputs, DType::BF16);
        linear(device, x.view(), &weight, out.view_mut()).expect("a GEMM");
        let (x, found) = (x.read(device), out.read(device));
        let (mut some, mut expected) = (Vec::new(), Vec::new());
        for row in (0..rows).step_by(rows.div_ceil(9)) {
            let x = &x[row * inputs..(row + 1) * inputs];
            let columns = (0..outputs).step_by(step(outputs));
            for (column, weights) in columns.zip(numbers.chunks(inputs)) {
                let products = x.iter().zip(weights).map(|(a, b)| f64::from(a * b));
                expected.push(products.sum::<f64>() as f32);
                some.push(found[row * outputs + column]);
            }
        }
        let error = distance(&some, &expected);
        let bound = if rows <= 64 { EXACT } else { ROUNDED };
        let word = if error < bound { "right" } else { "WRONG" };
        println!("{outputs}×{inputs} blocks {block:?} {rows:5} rows: off by {error:.1e}, {word}");
        well &= error < bound;
    }
    well
}

fn timed(device: &CudaDevice, name: &str, shape: (usize, usize), block: [usize; 2]) -> bool {
    let (outputs, inputs) = shape;
    let began = std::time::Instant::now();
    let copies = (TURNS / (outputs * inputs)).clamp(1, 16);
    let weights: Vec<Weight> = (0..copies)
        .map(|i| float8_weight(device, shape, block, (i as u64, outputs)).0)
        .collect();
    println!(
        "{name} {outputs}×{inputs}, {copies} weights loaded in {:.2} s",
        began.elapsed().as_secs_f64()
    );
    for line in device.describe_float8_gemms(outputs, inputs) {
        println!("    {line}");
    }
    for rows in ROWS {
        let x = Matrix::random(device, rows, inputs, 7);
        let mut out = Matrix::new(device, rows, outputs, DType::BF16);
        let us = time(device, (20 / copies).max(1) * copies, |turn| {
            linear(device, x.view(), &weights[turn % copies], out.view_mut())
        });
        let bytes = (outputs * inputs + 2 * rows * (inputs + outputs)) as f64;
        let work = 2.0 * (rows * outputs * inputs) as f64;
        let floor = (bytes / MEMORY).max(work / TENSOR8);
        let half = ((bytes + (outputs * inputs) as f64) / MEMORY).max(work / TENSOR);
        println!(
            "{name:14} fp8  {rows:5} rows {us:9.2} µs, floor {floor:8.2} µs, {:5.1} %, {:5.0} GB/s, {:5.0} TFLOP/s; bf16 floor {half:8.2} µs",
            100.0 * floor / us,
            bytes / us / 1e3,
            work / us / 1e6
        );
    }
    true
}
