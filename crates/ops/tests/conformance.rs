//! The reference device passes its own cases: the harness brings inputs in and results out as it should.

use ops::conformance::{Tolerances, cache_with, collectives, invariance, run_with};
use ops::{Alone, ReferenceDevice};
use tensor::DType;

#[test]
fn the_reference_equals_itself() {
    run_with(&ReferenceDevice::default(), Tolerances::EXACT).assert();
    invariance(&ReferenceDevice::default()).assert();
}

#[test]
fn the_reference_equals_itself_with_keys_and_values_of_eight_bits() {
    let device = ReferenceDevice::keeping(DType::F8E4M3);
    cache_with(&device, Tolerances::EXACT).assert();
}

#[test]
fn keys_of_eight_bits_are_as_near_where_activations_are_narrow() {
    let device = ReferenceDevice::keeping(DType::F8E4M3).computing(DType::BF16);
    cache_with(&device, Tolerances::default()).assert();
}

#[test]
fn a_rank_alone_has_what_it_had() {
    let device = ReferenceDevice::default();
    collectives(&device, &Alone(&device)).assert();
}
