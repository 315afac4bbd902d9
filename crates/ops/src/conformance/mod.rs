//! One list of cases for every device: poisoned outputs, random inputs, and one tolerance table.
//!
//! A device passes when [`run`] reports no failure. It has equal bits in any batch when [`invariance`] reports none, which a CPU
//! must and a GPU need only for decoding rows of attention; ranks pass when [`collectives`] reports none to any of them. Where keys
//! and values may have several types, [`cache`] is run with each. Inputs reach the device through its own staging, results come
//! back through its own readback.

mod bench;
mod cases;
mod compare;
mod run;

pub use compare::{Kind, Tolerances};
pub use run::{Outcome, Report, cache, cache_with, collectives, invariance, run, run_with};
