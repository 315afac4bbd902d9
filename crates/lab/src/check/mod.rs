//! What is noticed about a run once it is over.

mod figures;

use bench::record::RequestRecord;

use crate::finding::Finding;
use crate::run::Run;

/// Everything that can be noticed from a run's figures and records.
pub(crate) fn of_run(run: &Run, _records: &[RequestRecord]) -> Vec<Finding> {
    figures::findings(run)
}
