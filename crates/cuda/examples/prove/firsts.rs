//! Nothing is set up when an op first comes: the first of its shape takes no longer than the next.

use std::time::Instant;

use cuda::CudaDevice;
use ops::{Device as _, Linear, OpError, Weight, WeightFormat};
use tensor::DType;

use crate::bench::{Matrix, distance, linear, sync, wait, weight};

/// Name, outputs, inputs.
const SHAPES: [(&str, usize, usize); 5] = [
    ("1.5B qkv", 2048, 1536),
    ("1.5B o", 1536, 1536),
    ("1.5B down", 1536, 8960),
    ("8B qkv", 6144, 4096),
    ("8B o", 4096, 4096),
];
const HEAD: (usize, usize) = (151_936, 1536);
/// Row counts that nothing was timed with.
const ROWS: [usize; 13] = [3, 7, 11, 27, 60, 100, 201, 300, 500, 777, 1023, 1500, 2047];
/// Rows that sample: the last two are multiplied in parts.
const SAMPLED: [usize; 6] = [5, 60, 300, 511, 600, 1200];
/// Microseconds that a first run may take longer: less than a module takes to load.
const PATIENCE: f64 = 500.0;

pub(crate) fn run(device: &CudaDevice) -> bool {
    let mut well = true;
    for (index, (name, outputs, inputs)) in SHAPES.into_iter().enumerate() {
        let shape = (outputs, inputs);
        let bf16 = weight(device, outputs, inputs, index as u64);
        well &= gemms(device, &format!("{name} bf16"), &bf16, 8e-3);
        for group in [0, 128] {
            let format = WeightFormat::Float8 { group };
            let made = device.invent_weight(shape, format, index as u64);
            let made = made
                .expect("memory")
                .expect("a format that it makes up")
                .weight;
            // Inputs may be rounded with a bias or without.
            well &= gemms(device, &format!("{name} fp8 {group}"), &made, 5e-2);
        }
    }
    well &= heads(device) & replays(device);
    let unforeseen = device.unforeseen_gemms();
    println!("GEMMs not autotuned at load: {unforeseen}");
    well && unforeseen == 0
}

/// Microseconds until `run` has been done, of its first time and of the shortest of three more.
fn first_and_next(device: &CudaDevice, mut run: impl FnMut() -> Result<(), OpError>) -> (f64, f64) {
    let mut end = device.readback(16).expect("a readback");
    let mut once = || {
        let began = Instant::now();
        run().expect("an op");
        wait(end.as_mut());
        1e6 * began.elapsed().as_secs_f64()
    };
    let first = once();
    let next = (0..3).map(|_| once()).fold(f64::INFINITY, f64::min);
    (first, next)
}

fn report(name: &str, rows: usize, (first, next): (f64, f64)) -> bool {
    let well = first < next + PATIENCE;
    if !well {
        println!("{name} {rows:5} rows: {first:8.1} µs at first, {next:8.1} µs then: LATE");
    }
    well
}

/// With a bias and without; the difference is the bias.
fn gemms(device: &CudaDevice, name: &str, weight: &Weight, tolerance: f64) -> bool {
    let (outputs, inputs) = (weight.rows(), weight.cols());
    device.expect_bias(weight).expect("candidates with a bias");
    let bias = Matrix::random(device, 1, outputs, 90);
    let values = bias.read(device);
    let (mut well, mut slowest) = (true, 0.0f64);
    let mut worst = 0.0f64;
    for rows in ROWS {
        let x = Matrix::random(device, rows, inputs, 91);
        let mut out = Matrix::new(device, rows, outputs, DType::BF16);
        sync(device);
        let with = first_and_next(device, || {
            device.kernels().linear(Linear {
                x: x.view(),
                weight,
                bias: Some(bias.view()),
                out: out.view_mut(),
            })
        });
        let biased = out.read(device);
        let without = first_and_next(device, || linear(device, x.view(), weight, out.view_mut()));
        well &= report(name, rows, with) & report(name, rows, without);
        slowest = slowest.max(with.0 - with.1).max(without.0 - without.1);
        let plain = out.read(device);
        let sums = plain.iter().zip(values.iter().cycle());
        let sums: Vec<f32> = sums.map(|(value, bias)| value + bias).collect();
        worst = worst.max(distance(&biased, &sums));
    }
    println!("{name:18} first at most {slowest:7.1} µs later than next; bias {worst:.1e}");
    well && worst < tolerance
}

/// Logits of more rows than are multiplied at once are those of the rows by themselves.
fn heads(device: &CudaDevice) -> bool {
    let (outputs, inputs) = HEAD;
    let weight = weight(device, outputs, inputs, 40);
    let mut well = true;
    for rows in SAMPLED {
        let x = Matrix::random(device, rows, inputs, 92);
        let mut out = Matrix::new(device, rows, outputs, DType::F32);
        let mut alone = Matrix::new(device, 1, outputs, DType::F32);
        sync(device);
        let times = first_and_next(device, || linear(device, x.view(), &weight, out.view_mut()));
        well &= report("head", rows, times);
        let together = out.read(device);
        for row in [0, rows / 2, rows - 1] {
            let one = x.view().row_range(row..row + 1);
            linear(device, one, &weight, alone.view_mut()).expect("a GEMM");
            let error = distance(&alone.read(device), &together[row * outputs..][..outputs]);
            if error > 8e-3 {
                println!("head {rows:5} rows: row {row} is {error:.1e} off");
                well = false;
            }
        }
    }
    well
}

/// A graph is on the device before it is first replayed.
fn replays(device: &CudaDevice) -> bool {
    let weight = weight(device, 1536, 1536, 41);
    let x = Matrix::random(device, 16, 1536, 93);
    let mut out = Matrix::new(device, 16, 1536, DType::BF16);
    let mut many = || (0..200).try_for_each(|_| linear(device, x.view(), &weight, out.view_mut()));
    many().expect("GEMMs");
    sync(device);
    let graph = device.capture(&mut many).expect("a capture");
    let graph = graph.expect("this device captures");
    let (first, next) = first_and_next(device, || Ok(graph.replay()?));
    println!("replay of 200 GEMMs: {first:.1} µs at first, {next:.1} µs then");
    first < next + PATIENCE
}
