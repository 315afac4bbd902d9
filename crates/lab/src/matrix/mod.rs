//! Subjects × loads × repeats: planned, run cell by cell, resumed.

mod ask;
mod attempt;
mod cells;
mod expect;
mod mistakes;
mod notice;
mod plan;
mod preflight;
mod run;
mod session;
pub(crate) mod tell;

pub(crate) use ask::{ask, remembered};
pub(crate) use cells::{Cell, cells};
pub(crate) use expect::{Expectation, seconds as expected_seconds};
pub(crate) use mistakes::mistakes;
pub(crate) use plan::PlanError;
pub(crate) use plan::{DriverPlan, Plan};
pub(crate) use preflight::preflight;
pub(crate) use run::{Matrix, Summary};
pub(crate) use session::Session;
