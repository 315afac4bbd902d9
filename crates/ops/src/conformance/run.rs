//! The runs and what they found.

use std::fmt;

use super::bench::Bench;
use super::cases;
use super::compare::{Kind, Tolerances};
use crate::{Comm, Device};

/// One comparison.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The op.
    pub op: &'static str,
    /// Which inputs.
    pub case: String,
    /// What it was computed from.
    pub kind: Kind,
    /// Relative error, or why there is no result.
    pub error: Result<f64, String>,
    /// The most that is allowed.
    pub bound: f64,
}

impl Outcome {
    /// True when the device is close enough.
    pub fn passed(&self) -> bool {
        matches!(self.error, Ok(error) if error <= self.bound)
    }
}

/// All comparisons of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// In the order of the cases.
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// Those that are too far off.
    pub fn failures(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(|outcome| !outcome.passed())
    }

    /// Panics with every failure, for tests.
    pub fn assert(&self) {
        let failures: Vec<String> = self
            .failures()
            .take(40)
            .map(|o| {
                format!(
                    "{} {} ({:?}): {:?} > {:e}",
                    o.op, o.case, o.kind, o.error, o.bound
                )
            })
            .collect();
        assert!(
            failures.is_empty(),
            "{} of {} cases failed:\n{}",
            self.failures().count(),
            self.outcomes.len(),
            failures.join("\n")
        );
    }
}

impl fmt::Display for Report {
    /// The largest error by op and kind.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows: Vec<(&str, Kind, usize, f64, f64)> = Vec::new();
        for outcome in &self.outcomes {
            let error = outcome.error.clone().unwrap_or(f64::INFINITY);
            match rows
                .iter_mut()
                .find(|row| (row.0, row.1) == (outcome.op, outcome.kind))
            {
                Some(row) => {
                    row.2 += 1;
                    row.3 = row.3.max(error);
                }
                None => rows.push((outcome.op, outcome.kind, 1, error, outcome.bound)),
            }
        }
        for (op, kind, cases, error, bound) in rows {
            writeln!(
                f,
                "{op:17} {:12} {cases:4} cases, worst {error:.2e} of {bound:.0e}",
                format!("{kind:?}")
            )?;
        }
        Ok(())
    }
}

/// Runs every case of every op.
pub fn run(device: &dyn Device) -> Report {
    run_with(device, Tolerances::default())
}

/// As [`run`], with other tolerances.
pub fn run_with(device: &dyn Device, tolerances: Tolerances) -> Report {
    let mut bench = Bench::new(device, tolerances);
    cases::all(&mut bench);
    bench.report
}

/// Runs the cases that depend on the type of keys and values alone.
pub fn cache(device: &dyn Device) -> Report {
    cache_with(device, Tolerances::default())
}

/// As [`cache`], with other tolerances.
pub fn cache_with(device: &dyn Device, tolerances: Tolerances) -> Report {
    let mut bench = Bench::new(device, tolerances);
    cases::cache(&mut bench);
    bench.report
}

/// Runs ops on rows alone and in company: bits must not differ.
pub fn invariance(device: &dyn Device) -> Report {
    let mut bench = Bench::new(device, Tolerances::default());
    cases::invariance(&mut bench);
    bench.report
}

/// Runs what ranks do together; every rank calls it at the same time, with a device and a place of its own.
pub fn collectives(device: &dyn Device, comm: &dyn Comm) -> Report {
    let mut bench = Bench::new(device, Tolerances::default());
    cases::collectives(&mut bench, comm);
    bench.report
}
