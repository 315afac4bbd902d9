//! Heads of which only the largest scores count: those of real models, timed, and one that is small enough for a tool that
//! watches every access, to be run with `--own-gemms`, so that it reads bf12 weights.

use cuda::CudaDevice;
use cuda::fused::{GemmArgmax, GemmInput};
use half::bf16;
use ops::{Device as _, Draw, HostValues, HostWeight, Linear, OpError, SampleParams, Weight};
use tensor::DType;

use crate::bench::{MEMORY, Matrix, normals, time, weight};
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

/// What a head needs besides its weight.
struct Head {
    x: Matrix,
    params: Matrix,
    numbered: Matrix,
    scores: Matrix,
    out: Matrix,
    last: Matrix,
}

impl Head {
    fn new(device: &CudaDevice, x: Matrix, tokens: usize) -> Self {
        let rows = x.rows;
        let params: Vec<u8> = (0..rows)
            .flat_map(|_| small::bytes_of(&SampleParams::GREEDY))
            .collect();
        Self {
            params: Matrix::of_bytes(device, rows, SampleParams::BYTES, DType::U8, &params),
            numbered: Matrix::ints(device, &(0..rows as u32).collect::<Vec<_>>()),
            scores: Matrix::new(device, rows, tokens, DType::F32),
            out: Matrix::new(device, 1, rows, DType::U32),
            last: Matrix::new(device, 1, rows, DType::U32),
            x,
        }
    }

    fn draw(&mut self, device: &CudaDevice, weight: &Weight) -> Result<(), OpError> {
        device.run_gemm_argmax(GemmArgmax {
            gemm: Linear {
                x: self.x.view(),
                weight,
                bias: None,
                out: self.scores.view_mut(),
            },
            input: GemmInput::Plain,
            draw: Draw {
                params: self.params.view(),
                positions: self.numbered.view(),
                table_rows: self.numbered.view(),
                out: self.out.view_mut(),
                last: self.last.view_mut(),
            },
        })
    }
}

/// Heads of real models among others in a graph, beside the time that reading them takes. To be run with `--fold`.
pub(crate) fn heads(device: &CudaDevice) -> bool {
    for (tokens, inputs) in [(151_936, 1536), (151_936, 4096), (128_256, 2048)] {
        let weight = weight(device, tokens, inputs, 5);
        let bytes = device.folded_bytes((tokens, inputs), weight.format());
        for rows in [8, 16, 32, 64] {
            let x = Matrix::random(device, rows, inputs, 7);
            let mut head = Head::new(device, x, tokens);
            let us = time(device, 8, |_| head.draw(device, &weight));
            let floor = bytes as f64 / MEMORY;
            println!(
                "{tokens}×{inputs}, {rows:2} rows: {us:6.1} µs, {floor:6.1} to read it as bf12"
            );
        }
    }
    true
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
    let encoded = device.fold(&weight).expect("room for it") > 0;
    let x = Matrix::floats(device, ROWS, INPUTS, DType::BF16, &rows);
    let mut head = Head::new(device, x, TOKENS);
    head.draw(device, &weight).expect("a head");
    let found = head.out.read(device);
    let pairs = expected(&numbers, &rows).into_iter().zip(found);
    let wrong = pairs.filter(|&(a, b)| a != b as usize).count();
    println!("argmax of {TOKENS}, bf12: {encoded}, {wrong} of {ROWS} wrong");
    encoded && wrong == 0
}
