//! Every op at every level of this machine against its reference.

use cpu::{Activations, CpuDevice, CpuOptions, KvPrecision, Level};
use ops::conformance::{Tolerances, invariance, run, run_with};

fn device(level: Level, threads: usize, activations: Activations, kv: KvPrecision) -> CpuDevice {
    CpuDevice::new(&CpuOptions {
        threads,
        activations,
        kv,
        level,
    })
}

#[test]
fn every_level_is_as_close_to_the_reference_as_the_table_asks() {
    for level in Level::available() {
        for activations in [Activations::Int16, Activations::Int8] {
            let report = run(&device(level, 2, activations, KvPrecision::F16));
            println!("{} {activations:?}\n{report}", level.name());
            report.assert();
        }
    }
}

#[test]
fn exact_activations_are_as_close_as_plain_floats() {
    for level in Level::available() {
        let device = device(level, 1, Activations::Exact, KvPrecision::F32);
        run_with(&device, Tolerances::EXACT).assert();
    }
}

#[test]
fn bits_do_not_depend_on_the_batch() {
    for level in Level::available() {
        for activations in [Activations::Int16, Activations::Int8, Activations::Exact] {
            invariance(&device(level, 3, activations, KvPrecision::F16)).assert();
        }
    }
}
