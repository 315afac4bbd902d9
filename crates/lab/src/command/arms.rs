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
    if let Some(load) = load {
        let wanted: Selection = format!("load={load}").parse()?;
        runs.retain(|run| wanted.fits(run));
    }
    let runs: Vec<Run> = runs.into_iter().filter(Run::finished).collect();
    let mut subjects: Vec<&str> = runs.iter().map(|run| run.subject.name.as_str()).collect();
    subjects.sort_unstable();
    subjects.dedup();
    match subjects.as_slice() {
        [_] => Ok(store.evidence(runs)?),
        [] => Err(Failure::Usage(format!("no finished run fits {text:?}"))),
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
        let names = || METRICS.iter().map(|metric| metric.name).collect::<Vec<_>>();
        let hint = Metric::nearest(name).map_or_else(
            || format!("; there are {}", names().join(", ")),
            |near| format!("; did you mean {near}?"),
        );
        Failure::Usage(format!("there is no metric '{name}'{hint}"))
    })
}
