//! How long a matrix will take, from what is known.

use super::plan::{DriverPlan, LoadPlan, Plan};
use super::{Cell, Session};
use crate::run::{Origin, Run};
use crate::statistics::mean;

/// The time that cells are expected to take.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Expectation {
    /// Seconds, as far as they are known.
    pub(crate) seconds: f64,
    /// Cells of which nothing is known; each may take up to the time limit.
    pub(crate) unknown: usize,
}

impl Expectation {
    /// What is expected of cells, by what the plan says and by earlier runs.
    pub(crate) fn of(plan: &Plan, cells: &[Cell], runs: &[Run]) -> Self {
        let mut whole = Self::default();
        for cell in cells {
            match seconds(plan, cell, runs) {
                Some(seconds) => whole.seconds += seconds,
                None => whole.unknown += 1,
            }
        }
        whole
    }
}

/// The seconds that one cell is expected to take.
pub(crate) fn seconds(plan: &Plan, cell: &Cell, runs: &[Run]) -> Option<f64> {
    let (subject, load) = (&plan.subjects[cell.subject], &plan.loads[cell.load]);
    let of_subject = || runs.iter().filter(|run| run.subject.name == subject.name);
    let ready: Vec<f64> = of_subject()
        .filter_map(|run| match run.origin {
            Origin::Measured { ready_after, .. } => Some(ready_after),
            Origin::Imported { .. } => None,
        })
        .collect();
    let lasted: Vec<f64> = of_subject()
        .filter(|run| run.load.name == load.name)
        .filter_map(|run| run.figures.get("duration"))
        .collect();
    let start = if ready.is_empty() { 0.0 } else { mean(&ready) };
    let known = if lasted.is_empty() {
        planned(load)
    } else {
        Some(mean(&lasted))
    };
    known.map(|seconds| start + seconds)
}

/// The seconds that a load takes by its own words.
fn planned(load: &LoadPlan) -> Option<f64> {
    if let Some(expect) = load.expect {
        return Some(expect.as_secs_f64());
    }
    let DriverPlan::Bench(args) = &load.driver else {
        return None;
    };
    let number = |name: &str| {
        let at = args.iter().position(|word| word == name)?;
        args.get(at + 1)?.parse::<f64>().ok()
    };
    if let Some(seconds) = number("--duration") {
        return Some(seconds);
    }
    let rate = number("--request-rate").filter(|rate| rate.is_finite() && *rate > 0.0)?;
    Some(number("--num-prompts").unwrap_or(1000.0) / rate)
}

impl Session {
    /// Cells that have no run yet.
    pub(crate) fn pending(
        &self,
        store: &crate::store::Store,
        cells: Vec<Cell>,
    ) -> Result<Vec<Cell>, crate::store::StoreError> {
        let done = self.done(store)?;
        Ok(cells
            .into_iter()
            .filter(|cell| !done.contains(&cell.place))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::cells;

    #[test]
    fn what_is_not_known_is_counted() {
        let text = "name = \"x\"\nrepeats = 2\n[[subject]]\nname = \"A\"\ncommand = \"a\"\n\
            [[load]]\nname = \"told\"\nbench = \"\"\nexpect = \"7s\"\n\
            [[load]]\nname = \"paced\"\nbench = \"--num-prompts 100 --request-rate 20\"\n\
            [[load]]\nname = \"open\"\nbench = \"--request-rate inf\"\n\
            [[load]]\nname = \"other\"\ncommand = \"client\"\n";
        let plan = Plan::parse(text).unwrap();
        let found = Expectation::of(&plan, &cells(&plan), &[]);
        assert_eq!(found.unknown, 4);
        assert!((found.seconds - 24.0).abs() < 1e-9);
    }
}
