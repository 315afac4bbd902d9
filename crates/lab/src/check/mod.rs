//! What is noticed about a run once it is over.

mod figures;
mod requests;

pub(crate) use requests::Surroundings;

use bench::record::RequestRecord;

use crate::finding::Finding;
use crate::run::Run;

/// Everything that can be noticed from a run's figures and records.
pub(crate) fn of_run(run: &Run, records: &[RequestRecord]) -> Vec<Finding> {
    of_run_within(run, records, &|_, _| Vec::new())
}

/// The same, with the server's log lines around a stretch of time for quoting.
pub(crate) fn of_run_within(
    run: &Run,
    records: &[RequestRecord],
    surroundings: Surroundings<'_>,
) -> Vec<Finding> {
    let mut findings = figures::findings(run);
    findings.extend(requests::findings(run, records, surroundings));
    findings
}
