//! Every way of our own products: right, and how fast beside cuBLASLt. To be run with `--library-products`.

use cuda::CudaDevice;
use ops::{Linear, Weight};
use tensor::DType;

use crate::bench::{Matrix, distance, linear, sync, time, weight};

/// Outputs and inputs of products that are only checked.
const ODD: [(usize, usize); 4] = [(200, 136), (328, 1000), (1544, 72), (4104, 8)];
/// Of those that are timed, too.
const REAL: [(usize, usize); 4] = [(6144, 4096), (4096, 4096), (24576, 4096), (4096, 12288)];
/// Rows.
const CHECKED: [usize; 6] = [9, 16, 33, 64, 100, 128];
const TIMED: [usize; 4] = [16, 32, 64, 128];
/// Bytes of weights that take turns, so that none is found in the cache.
const TURNS: usize = 200 << 20;
/// What results may differ by.
const BOUND: f64 = 6e-3;

/// All ways of all shapes.
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
        for rows in [33, 100] {
            well &= check(device, &weights[0], rows);
        }
        for rows in TIMED {
            measure(device, &weights, rows);
        }
    }
    well
}

fn in_way(
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
    device.linear_in_way(number, product).expect("a product")
}

fn check(device: &CudaDevice, weight: &Weight, rows: usize) -> bool {
    let x = Matrix::random(device, rows, weight.cols(), 7);
    let mut out = Matrix::new(device, rows, weight.rows(), DType::BF16);
    linear(device, x.view(), weight, out.view_mut()).expect("a product");
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
        let Some(way) = in_way(device, number, weight, &x, &mut out) else {
            break;
        };
        let far = distance(&out.read(device), &expected);
        if far > BOUND {
            let (outputs, inputs) = (weight.rows(), weight.cols());
            println!("FAILED {outputs}×{inputs}, {rows} rows: {far:.1e} {way}");
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
        let Some(way) = in_way(device, number, &weights[0], &x, &mut out) else {
            break;
        };
        sync(device);
        let us = time(device, many, |turn| {
            in_way(device, number, &weights[turn % weights.len()], &x, &mut out);
            Ok(())
        });
        println!("    {us:6.1} µs {way}");
    }
}
