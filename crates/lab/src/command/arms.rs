//! The arms and metrics that a command line names.

use flags::Parsed;

use super::Failure;
use crate::metric::{METRICS, Metric};
use crate::run::{Evidence, Run};
use crate::store::{Selection, Store};

/// The runs of the one subject that a selection fits.
pub(super) fn arm(store: &Store, text: &str, load: Option<&str>) -> Result<Vec<Evidence>, Failure> {
    let selection: Selection = text.parse()?;
    let mut runs = store.select(&selection)?;
    runs.retain(Run::finished);
    if runs.is_empty() {
        return Err(Failure::Usage(format!("all runs that fit {text:?} failed")));
    }
    if let Some(load) = load {
        let wanted: Selection = format!("load={load}").parse()?;
        let mut loads: Vec<String> = runs.iter().map(|run| run.load.name.clone()).collect();
        loads.sort();
        loads.dedup();
        runs.retain(|run| wanted.fits(run));
        if runs.is_empty() {
            return Err(Failure::Usage(format!(
                "no run of {text:?} has load {load:?}; there are {}",
                loads.join(" | ")
            )));
        }
    }
    let mut subjects: Vec<&str> = runs.iter().map(|run| run.subject.name.as_str()).collect();
    subjects.sort_unstable();
    subjects.dedup();
    match subjects.as_slice() {
        [_] => Ok(store.evidence(runs)?),
        several => Err(Failure::Usage(format!(
            "{text:?} fits several subjects, an arm is one: {}",
            several.join(" | ")
        ))),
    }
}

/// Refuses arms that share runs: a run cannot be held against itself.
pub(super) fn apart(first: &[Evidence], second: &[Evidence]) -> Result<(), Failure> {
    let both = |one: &&Evidence| second.iter().any(|other| other.run.id == one.run.id);
    match first.iter().find(both) {
        None => Ok(()),
        Some(shared) => Err(Failure::Usage(format!(
            "run {} is in both arms; choose runs that differ, for instance by session=NAME",
            shared.run.short_id()
        ))),
    }
}

/// The metrics that were asked for; `all` is every metric that is good or bad.
pub(super) fn metrics(parsed: &Parsed) -> Result<Vec<&'static Metric>, Failure> {
    let names = parsed.list("metric").unwrap_or_default();
    if names == ["all"] {
        let judged = |metric: &&Metric| metric.better != crate::metric::Better::Neither;
        return Ok(METRICS.iter().filter(judged).collect());
    }
    names.into_iter().map(metric).collect()
}

/// The metric of this name.
pub(super) fn metric(name: &str) -> Result<&'static Metric, Failure> {
    Metric::named(name).ok_or_else(|| {
        let names = METRICS.iter().map(|metric| metric.name);
        let with: Vec<&str> = names.clone().filter(|other| other.contains(name)).collect();
        let hint = match (Metric::nearest(name), with.as_slice()) {
            (Some(near), _) => format!("; did you mean {near}?"),
            (None, []) => format!("; there are {}", names.collect::<Vec<_>>().join(", ")),
            (None, with) => format!("; with that in their names there are {}", with.join(", ")),
        };
        Failure::Usage(format!("there is no metric '{name}'{hint}"))
    })
}
