//! Heads of which only the largest scores count, small enough for a tool that watches every access. To be run with
//! `--own-products`, so that they read folded weights.

use cuda::CudaDevice;
use half::bf16;
use ops::{
    Device as _, Draw, HostValues, HostWeight, Inputs, Linear, LinearLargest, SampleParams, Weight,
};
use tensor::DType;

use crate::bench::{Matrix, normals};
use crate::small;

/// More tokens than there are multiprocessors for, 192 each.
const TOKENS: usize = 25_696;
const INPUTS: usize = 128;
const ROWS: usize = 8;

/// Whole numbers from one to three, of both signs: sums are exact in any order.
fn whole(count: usize, seed: u64) -> Vec<f32> {
    let whole = |number: f32| (1.0 + number.abs().floor().min(2.0)).copysign(number);
    normals(count, seed).into_iter().map(whole).collect()
}

/// The first of the largest scores of each row.
fn expected(numbers: &[f32], rows: &[f32]) -> Vec<usize> {
    let largest = |row: &[f32]| {
        let score = |token: &[f32]| -> f32 { token.iter().zip(row).map(|(a, b)| a * b).sum() };
        let scores = numbers.chunks_exact(INPUTS).map(score).enumerate();
        let first = (0, f32::NEG_INFINITY);
        let best = scores.fold(
            first,
            |best, next| if next.1 > best.1 { next } else { best },
        );
        best.0
    };
    rows.chunks_exact(INPUTS).map(largest).collect()
}

fn draw(device: &CudaDevice, weight: &Weight, rows: &[f32]) -> Vec<f32> {
    let x = Matrix::floats(device, ROWS, INPUTS, DType::BF16, rows);
    let params: Vec<u8> = (0..ROWS)
        .flat_map(|_| small::bytes_of(&SampleParams::GREEDY))
        .collect();
    let params = Matrix::of_bytes(device, ROWS, SampleParams::BYTES, DType::U8, &params);
    let numbered = Matrix::ints(device, &(0..ROWS as u32).collect::<Vec<_>>());
    let mut scores = Matrix::new(device, ROWS, TOKENS, DType::F32);
    let mut out = Matrix::new(device, 1, ROWS, DType::U32);
    let mut last = Matrix::new(device, 1, ROWS, DType::U32);
    let drawn = device.kernels().linear_largest(LinearLargest {
        product: Linear {
            x: x.view(),
            weight,
            bias: None,
            out: scores.view_mut(),
        },
        inputs: Inputs::Plain,
        draw: Draw {
            params: params.view(),
            positions: numbered.view(),
            table_rows: numbered.view(),
            out: out.view_mut(),
            last: last.view_mut(),
        },
    });
    drawn.expect("a head");
    out.read(device)
}

pub(crate) fn small(device: &CudaDevice) -> bool {
    let (numbers, rows) = (whole(TOKENS * INPUTS, 5), whole(ROWS * INPUTS, 6));
    let bytes: Vec<u8> = numbers
        .iter()
        .flat_map(|&number| bf16::from_f32(number).to_le_bytes())
        .collect();
    let host = HostWeight {
        rows: TOKENS,
        cols: INPUTS,
        values: HostValues::Plain(DType::BF16, bytes.into()),
    };
    let weight = device.load_weight(host).expect("a weight");
    let folded = device.fold(&weight).expect("room for it") > 0;
    let found = draw(device, &weight, &rows);
    let pairs = expected(&numbers, &rows).into_iter().zip(found);
    let wrong = pairs.filter(|&(a, b)| a != b as usize).count();
    println!("the largest of {TOKENS}, folded: {folded}, {wrong} of {ROWS} wrong");
    folded && wrong == 0
}
