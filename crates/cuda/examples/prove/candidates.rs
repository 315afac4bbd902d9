//! Every GEMM candidate of ours: right, and how fast beside cuBLASLt. To be run with `--library-gemms`.

use cuda::CudaDevice;
use cuda::fused::{GatedGemm, GemmInput};
use ops::{Activation, Device as _, GatedActivation, Linear, Weight};
use tensor::DType;

use crate::bench::{Matrix, distance, linear, sync, time, weight};

/// Outputs and inputs of GEMMs that are only checked.
const ODD: [(usize, usize); 6] = [
    (200, 136),
    (328, 1000),
    (1544, 72),
    // with 128 rows, eight blocks of a cluster split K of 192 outputs
    (2056, 1032),
    (4104, 8),
    (12_880, 136),
];
/// Of those that are timed, too.
const REAL: [(usize, usize); 4] = [(6144, 4096), (4096, 4096), (24576, 4096), (4096, 12288)];
/// Rows.
const CHECKED: [usize; 8] = [9, 16, 33, 64, 100, 128, 131, 256];
const TIMED: [usize; 5] = [16, 32, 64, 128, 256];
/// Bytes of weights that are read in turn, so that none is found in L2.
const TURNS: usize = 200 << 20;
/// What results may differ by.
const BOUND: f64 = 6e-3;

/// All candidates of all shapes.
pub(crate) fn run(device: &CudaDevice) -> bool {
    let mut well = true;
    for (outputs, inputs) in ODD {
        let weight = weight(device, outputs, inputs, 5);
        for rows in CHECKED {
            well &= check(device, &weight, rows);
        }
    }
    for (outputs, inputs) in REAL {
        let copies = (TURNS / (2 * outputs * inputs)).max(1);
        let weights: Vec<Weight> = (0..copies as u64)
            .map(|i| weight(device, outputs, inputs, i))
            .collect();
        for rows in [33, 100, 200] {
            well &= check(device, &weights[0], rows);
        }
        for rows in TIMED {
            measure(device, &weights, rows);
        }
    }
    well
}

fn by_candidate(
    device: &CudaDevice,
    number: usize,
    weight: &Weight,
    x: &Matrix,
    out: &mut Matrix,
) -> Option<String> {
    let product = Linear {
        x: x.view(),
        weight,
        bias: None,
        out: out.view_mut(),
    };
    device.linear_by_candidate(number, product).expect("a GEMM")
}

fn check(device: &CudaDevice, weight: &Weight, rows: usize) -> bool {
    let x = Matrix::random(device, rows, weight.cols(), 7);
    let mut out = Matrix::new(device, rows, weight.rows(), DType::BF16);
    linear(device, x.view(), weight, out.view_mut()).expect("a GEMM");
    let expected = out.read(device);
    let mut well = true;
    for number in 0.. {
        let mut out = Matrix::floats(
            device,
            rows,
            weight.rows(),
            DType::BF16,
            &vec![f32::NAN; rows * weight.rows()],
        );
        let Some(candidate) = by_candidate(device, number, weight, &x, &mut out) else {
            break;
        };
        let far = distance(&out.read(device), &expected);
        if far > BOUND {
            let (outputs, inputs) = (weight.rows(), weight.cols());
            println!("FAILED {outputs}×{inputs}, {rows} rows: {far:.1e} {candidate}");
            well = false;
        }
    }
    well
}

fn measure(device: &CudaDevice, weights: &[Weight], rows: usize) {
    let (outputs, inputs) = (weights[0].rows(), weights[0].cols());
    let x = Matrix::random(device, rows, inputs, 7);
    let mut out = Matrix::new(device, rows, outputs, DType::BF16);
    let many = weights.len().max(8);
    let us = time(device, many, |turn| {
        linear(
            device,
            x.view(),
            &weights[turn % weights.len()],
            out.view_mut(),
        )
    });
    println!("{outputs}×{inputs}, {rows} rows: {us:6.1} µs cuBLASLt");
    for number in 0.. {
        let Some(candidate) = by_candidate(device, number, &weights[0], &x, &mut out) else {
            break;
        };
        sync(device);
        let us = time(device, many, |turn| {
            by_candidate(device, number, &weights[turn % weights.len()], &x, &mut out);
            Ok(())
        });
        println!("    {us:6.1} µs {candidate}");
    }
}

/// Outputs, inputs and rows of gated GEMMs; tiles and rings are filled and not.
const GATED: [(usize, usize, usize); 6] = [
    (12_880, 136, 131),
    (24_576, 4096, 256),
    (12_880, 136, 256),
    (24_576, 4096, 64),
    (320, 200, 33),
    (12_880, 8, 130),
];

/// Gated GEMMs give what GEMMs and gates give; with `--own-gemms` by kernels of ours throughout.
pub(crate) fn gates(device: &CudaDevice) -> bool {
    let mut well = true;
    for (outputs, inputs, rows) in GATED {
        let weight = weight(device, outputs, inputs, 3);
        let bias = Matrix::random(device, 1, outputs, 4);
        for (activation, biased) in [(Activation::Silu, false), (Activation::GeluTanh, true)] {
            let bias = biased.then_some(&bias);
            let far = gate(device, &weight, rows, bias, activation);
            println!("{outputs}×{inputs}, {rows} rows, {activation:?}: {far:.1e}");
            well &= far < BOUND;
        }
    }
    well
}

/// How far a gated GEMM is from a GEMM whose results are gated.
fn gate(
    device: &CudaDevice,
    weight: &Weight,
    rows: usize,
    bias: Option<&Matrix>,
    activation: Activation,
) -> f64 {
    let (outputs, kernels) = (weight.rows(), device.kernels());
    let x = Matrix::random(device, rows, weight.cols(), 7);
    let mut room = Matrix::new(device, rows, outputs, DType::BF16);
    let nothing = vec![f32::NAN; rows * outputs / 2];
    let fresh = || Matrix::floats(device, rows, outputs / 2, DType::BF16, &nothing);
    let (mut found, mut expected) = (fresh(), fresh());
    let (x, bias) = (x.view(), bias.map(Matrix::view));
    let whole = GatedGemm {
        gemm: Linear {
            x,
            weight,
            bias,
            out: room.view_mut(),
        },
        input: GemmInput::Plain,
        activation,
        out: found.view_mut(),
        readers: &[],
    };
    device.run_gated_gemm(whole).expect("a gated GEMM");
    let product = Linear {
        x,
        weight,
        bias,
        out: room.view_mut(),
    };
    kernels.linear(product).expect("a GEMM");
    let gates = GatedActivation {
        gate_up: room.view(),
        activation,
        out: expected.view_mut(),
    };
    kernels.gated_activation(gates).expect("gates");
    distance(&found.read(device), &expected.read(device))
}
