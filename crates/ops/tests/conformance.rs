//! The reference device passes its own cases: the harness brings inputs in and results out as it should.

use ops::ReferenceDevice;
use ops::conformance::{Tolerances, invariance, run_with};

#[test]
fn the_reference_equals_itself() {
    run_with(&ReferenceDevice::default(), Tolerances::EXACT).assert();
    invariance(&ReferenceDevice::default()).assert();
}
