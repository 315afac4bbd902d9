//! Every linear layer of SmolLM2 at several batch sizes.

use std::time::Instant;

use cpu::CpuDevice;
use ops::{AffineRows, Device, HostValues, HostWeight, Linear, Weight};
use tensor::{View, ViewMut};

use crate::floor::Floor;

/// More than the caches hold.
const COLD: usize = 96 << 20;

/// A quantised weight as GGUF files hold it: Q4_1 or Q8_0.
pub(crate) fn weight(device: &CpuDevice, rows: usize, cols: usize, bits: u8) -> Weight {
    let mut state = 12_345u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 16
    };
    let half = |x: f32| half::f16::from_f32(x).to_f32();
    let quants = (0..rows * cols)
        .map(|_| (next() % (1 << bits)) as u8)
        .collect();
    let groups = rows * cols / 32;
    let scales: Vec<f32> = (0..groups)
        .map(|_| half(next() as f32 / 65_536.0 * 0.01))
        .collect();
    let minimums = scales
        .iter()
        .map(|scale| {
            if bits == 8 {
                -128.0 * scale
            } else {
                half(scale * -7.3)
            }
        })
        .collect();
    let values = HostValues::Affine(AffineRows {
        bits,
        group: 32,
        quants,
        scales,
        minimums,
    });
    let loaded = device.load_weight(HostWeight { rows, cols, values });
    loaded.expect("a CPU takes these formats")
}

pub(crate) fn table(device: &CpuDevice, floor: &Floor) {
    println!("layer           rows        µs    GB/s  GMAC/s  measured/floor");
    for (name, inputs, outputs, bits) in [
        ("qkv 576→960", 576, 960, 4),
        ("out 576→576", 576, 576, 4),
        ("up 576→3072", 576, 3072, 4),
        ("down 1536→576", 1536, 576, 4),
        ("head 576→49152", 576, 49_152, 8),
    ] {
        let first = weight(device, outputs, inputs, bits);
        let bytes = first.bytes();
        let mut copies = vec![first];
        while copies.len() * bytes < COLD {
            copies.push(weight(device, outputs, inputs, bits));
        }
        for rows in [1, 4, 16, 128, 512] {
            let x: Vec<f32> = (0..rows * inputs)
                .map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.02)
                .collect();
            let mut out = vec![0.0f32; rows * outputs];
            let macs = rows * inputs * outputs;
            let mut best = f64::INFINITY;
            let start = Instant::now();
            while start.elapsed().as_secs_f64() < 0.6 {
                for weight in &copies {
                    let round = Instant::now();
                    let op = Linear {
                        x: View::of_matrix(&x, rows, inputs),
                        weight,
                        bias: None,
                        out: ViewMut::of_matrix(&mut out, rows, outputs),
                    };
                    device.kernels().linear(op).expect("shapes fit");
                    best = best.min(round.elapsed().as_secs_f64());
                }
            }
            println!(
                "{name:15} {rows:4} {:9.1} {:7.1} {:7.1} {:10.2}",
                best * 1e6,
                bytes as f64 / best / 1e9,
                macs as f64 / best / 1e9,
                best / floor.time(bytes, macs)
            );
        }
    }
}
