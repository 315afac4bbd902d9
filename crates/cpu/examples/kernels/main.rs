//! Times the CPU's ops at SmolLM2's shapes against the floors of this machine: memory bandwidth and integer products.
//!
//! `cargo run --release -p cpu --example kernels [linear|step|all] [portable|avx2|avx512vnni]`. Weights are cycled through copies larger than the
//! caches, as a model's layers are. Times are the least of many repeats: other load on the machine only adds.
#![allow(
    unsafe_code,
    reason = "the peak of byte products is measured with the bare instruction"
)]
#![allow(clippy::print_stdout, reason = "an example prints what it measured")]

mod floor;
mod linear;
mod step;

use cpu::{CpuDevice, CpuOptions, Level};
use floor::Floor;

fn main() {
    let what = std::env::args().nth(1).unwrap_or_else(|| "all".into());
    let level = std::env::args().nth(2).map_or_else(Level::best, |name| {
        let named = Level::available().into_iter().find(|l| l.name() == name);
        named.expect("a level of this machine")
    });
    for threads in [1, 2] {
        let device = CpuDevice::new(&CpuOptions {
            threads,
            level,
            ..CpuOptions::default()
        });
        let floor = Floor::measure(threads);
        println!(
            "\n{threads} threads: reads {:.1} GB/s, byte products {:.0} GMAC/s, {}",
            floor.read / 1e9,
            floor.products / 1e9,
            ops::Device::info(&device).features
        );
        if what != "step" {
            linear::table(&device, &floor);
        }
        if what != "linear" {
            step::table(&device, &floor);
        }
    }
}
