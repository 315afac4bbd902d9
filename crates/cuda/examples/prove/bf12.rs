//! bf12 weights: every number is decoded exactly. To be run with `--own-gemms`, so that GEMMs read them.

use std::cmp::Ordering;

use cuda::CudaDevice;
use half::bf16;
use ops::{Device as _, HostValues, HostWeight};
use tensor::DType;

use crate::bench::{Matrix, linear, normals};

/// Outputs and inputs: segments and tiles that are not full, shared inputs, and those of a model.
const SHAPES: [(usize, usize); 5] = [
    (96, 264),
    (192, 1000),
    (160, 448),
    (1536, 8960),
    (17_920, 1536),
];
/// Rows of each kernel, and the most columns of a weight that are looked at with so many, one in a row.
const ROWS: [(usize, usize); 6] = [
    (1, 192),
    (2, 192),
    (8, 1536),
    (16, 1536),
    (32, 1536),
    (64, 1536),
];
/// The same for a tool that watches every access.
const SMALL_ROWS: [(usize, usize); 2] = [(2, 24), (8, 24)];
/// Rows that chains take.
const MOST_CHAINED: usize = 2;
/// One in so many numbers is none, or of another size.
const UNUSUAL: usize = 700;

pub(crate) fn run(device: &CudaDevice) -> bool {
    let found = SHAPES.map(|shape| is_lossless(device, shape, &ROWS));
    found.into_iter().all(|right| right)
}

/// The same, small enough for a tool that watches every access.
pub(crate) fn small(device: &CudaDevice) -> bool {
    is_lossless(device, (96, 320), &SMALL_ROWS)
}

/// The same with so many inputs that rings turn.
pub(crate) fn turning(device: &CudaDevice) -> bool {
    is_lossless(device, (96, 2624), &SMALL_ROWS)
}

/// Normal numbers, some of which are nothing, or smaller or larger by far.
fn spread(count: usize) -> Vec<bf16> {
    let sizes = [0.0, -0.0, 1e-39, 3e-12, 5e-7, 9.0, 2e5, 7e9, 1e30];
    let numbers = normals(count, 3).into_iter().enumerate();
    let number = |(i, number): (usize, f32)| match i * 7919 % UNUSUAL {
        0 => bf16::from_f32(sizes[i / UNUSUAL % sizes.len()] * number),
        _ => bf16::from_f32(number),
    };
    numbers.map(number).collect()
}

/// True when GEMMs of that many rows, more than the megakernel takes, read such a weight as bf12.
fn reads_folded(device: &CudaDevice, (outputs, inputs): (usize, usize), rows: usize) -> bool {
    let candidates = device.describe_gemms(outputs, inputs);
    let mut candidates = candidates.iter();
    let way = candidates.find(|line| line.contains(&format!("{rows:5} rows, f32")));
    way.is_some_and(|line| line.contains("bf12 Some"))
}

/// Multiplies with rows that are one in one place: results are the weight's columns.
fn is_lossless(
    device: &CudaDevice,
    (outputs, inputs): (usize, usize),
    counts: &[(usize, usize)],
) -> bool {
    let numbers = spread(outputs * inputs);
    let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
    let weight = device
        .load_weight(HostWeight {
            rows: outputs,
            cols: inputs,
            values: HostValues::Plain(DType::BF16, bytes.into()),
        })
        .expect("a weight");
    let bytes = device.fold(&weight).expect("room for it");
    let mut well = bytes > 0;
    for &(rows, most) in counts {
        let (mut wrong, mut looked_at) = (0, 0);
        for first in (0..inputs.min(most)).step_by(rows) {
            let there = rows.min(inputs - first);
            let mut ones = vec![0.0; rows * inputs];
            (0..there).for_each(|row| ones[row * inputs + first + row] = 1.0);
            let x = Matrix::floats(device, rows, inputs, DType::BF16, &ones);
            let mut out = Matrix::new(device, rows, outputs, DType::F32);
            linear(device, x.view(), &weight, out.view_mut()).expect("a GEMM");
            let found = out.read(device);
            for (row, found) in found.chunks(outputs).take(there).enumerate() {
                let expected = (0..outputs).map(|i| numbers[i * inputs + first + row].to_f32());
                let differ = |&(found, expected): &(&f32, f32)| {
                    found.partial_cmp(&expected).is_none_or(Ordering::is_ne)
                };
                wrong += found.iter().zip(expected).filter(differ).count();
                looked_at += outputs;
            }
        }
        let reads_it = rows <= MOST_CHAINED || reads_folded(device, (outputs, inputs), rows);
        println!(
            "{outputs}×{inputs}, {bytes} bytes, {rows:2} rows{}: {wrong} of {looked_at} numbers wrong",
            if reads_it { "" } else { ", NOT READ FOLDED" }
        );
        well &= reads_it && wrong == 0;
    }
    well
}
