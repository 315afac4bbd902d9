//! Rows that go from one eight-bit GEMM to the next, in whatever form the device hands them on: against sums on the
//! host that round nothing.

use cuda::CudaDevice;
use cuda::fused::{DeferredScale, GatedGemm, GemmAddNorm, GemmInput};
use ops::{Activation, Linear, Weight};
use tensor::DType;

use crate::bench::{Matrix, distance, normals};
use crate::float8::{ROUNDED, float8_weight};

const HIDDEN: usize = 4096;
const INNER: usize = 6144;
const EPS: f32 = 1e-6;
/// From one checked output of the last GEMM to the next.
const STEP: usize = 61;

/// A weight and its numbers.
type Known = (Weight, Vec<f32>);

struct Weights {
    output: Known,
    gate_up: Known,
    down: Known,
    norm: Vec<f32>,
}

pub(crate) fn check(device: &CudaDevice) -> bool {
    let mut well = true;
    for groups in [false, true] {
        let known = |rows, cols, seed, step| {
            let block = if groups { [128, 128] } else { [1, cols] };
            float8_weight(device, (rows, cols), block, (seed, step))
        };
        let weights = Weights {
            output: known(HIDDEN, HIDDEN, 11, 1),
            gate_up: known(2 * INNER, HIDDEN, 12, 1),
            down: known(HIDDEN, INNER, 13, STEP),
            norm: normals(HIDDEN, 14),
        };
        for rows in [68, 131, 256] {
            well &= agrees(device, &weights, rows, groups);
        }
    }
    well
}

/// The end of attention, the gates, and the GEMM after them.
fn agrees(device: &CudaDevice, weights: &Weights, rows: usize, groups: bool) -> bool {
    let bf16 = |cols| Matrix::new(device, rows, cols, DType::BF16);
    let x = Matrix::random(device, rows, HIDDEN, 21);
    let mut residual = Matrix::random(device, rows, HIDDEN, 22);
    let before = residual.read(device);
    let norm = Matrix::floats(device, 1, HIDDEN, DType::F32, &weights.norm);
    let (mut delta, mut normed) = (bf16(HIDDEN), bf16(HIDDEN));
    let parts = HIDDEN.div_ceil(DeferredScale::PART);
    let mut squares = Matrix::new(device, rows, parts, DType::F32);
    let (mut wide, mut inner, mut out) = (bf16(2 * INNER), bf16(INNER), bf16(HIDDEN));
    let state = device.run_gemm_add_norm(GemmAddNorm {
        gemm: Linear {
            x: x.view(),
            weight: &weights.output.0,
            bias: None,
            out: delta.view_mut(),
        },
        input: GemmInput::Plain,
        residual: residual.view_mut(),
        weight: norm.view(),
        eps: EPS,
        out: normed.view_mut(),
        squares: squares.view_mut(),
        readers: &[&weights.gate_up.0],
    });
    let state = state.expect("the end of attention");
    let scale = DeferredScale {
        squares: squares.view(),
        width: HIDDEN,
        eps: EPS,
    };
    let form = device.run_gated_gemm(GatedGemm {
        gemm: Linear {
            x: normed.view(),
            weight: &weights.gate_up.0,
            bias: None,
            out: wide.view_mut(),
        },
        input: state.input(scale),
        activation: Activation::Silu,
        out: inner.view_mut(),
        readers: &[&weights.down.0],
    });
    let form = form.expect("gates");
    let last = Linear {
        x: inner.view(),
        weight: &weights.down.0,
        bias: None,
        out: out.view_mut(),
    };
    let ran = device.multiply(form.input(scale), last);
    ran.expect("the GEMM after the gates");
    let (x, sums, found) = (x.read(device), residual.read(device), out.read(device));
    let mut errors = [0.0f64; 2];
    for row in [0, rows / 2, rows - 1] {
        let of = |all: &[f32]| all[row * HIDDEN..(row + 1) * HIDDEN].to_vec();
        let (expected, last) = weights.reference(&of(&x), &of(&before));
        let some: Vec<f32> = of(&found).into_iter().step_by(STEP).collect();
        let found = [distance(&of(&sums), &expected), distance(&some, &last)];
        errors = [0, 1].map(|i| errors[i].max(found[i]));
    }
    // Three GEMMs in a row, each of which may round its inputs.
    let well = errors[0] < ROUNDED && errors[1] < 2.0 * ROUNDED;
    let kind = if groups { "128×128" } else { "a row" };
    let word = if well { "right" } else { "WRONG" };
    println!(
        "layer of {rows:4} rows, scales {kind}: norm {state:?}, gates {form:?}, off by {:.2e} and {:.2e}, {word}",
        errors[0], errors[1]
    );
    well
}

impl Weights {
    /// The residual, and some outputs of the last GEMM, of one row.
    fn reference(&self, x: &[f32], residual: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let sums: Vec<f32> = multiplied(x, &self.output)
            .zip(residual)
            .map(|(sum, before)| sum as f32 + before)
            .collect();
        let squares: f64 = sums.iter().map(|&sum| f64::from(sum).powi(2)).sum();
        let factor = 1.0 / (squares / HIDDEN as f64 + f64::from(EPS)).sqrt();
        let normed = sums.iter().zip(&self.norm);
        let normed: Vec<f32> = normed.map(|(sum, by)| sum * factor as f32 * by).collect();
        let wide: Vec<f64> = multiplied(&normed, &self.gate_up).collect();
        let (gates, ups) = wide.split_at(INNER);
        let gated = gates.iter().zip(ups);
        let gated: Vec<f32> = gated
            .map(|(gate, up)| (gate / (1.0 + (-gate).exp()) * up) as f32)
            .collect();
        let last = multiplied(&gated, &self.down).map(|sum| sum as f32);
        (sums, last.collect())
    }
}

/// A row times the rows of a weight whose numbers are known.
fn multiplied<'a>(x: &'a [f32], weight: &'a Known) -> impl Iterator<Item = f64> + 'a {
    weight.1.chunks(x.len()).map(move |weights| {
        let products = x.iter().zip(weights).map(|(a, b)| f64::from(a * b));
        products.sum()
    })
}
