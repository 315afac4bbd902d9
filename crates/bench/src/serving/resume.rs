//! Two sessions of one run on one time line.
//!
//! The load of the later session begins where the last request on record ended. What lay between,
//! the pause and the second warm-up, is left out, and so is the work on requests that were under
//! way at the interruption: they are sent again.

use super::error::ServingError;
use super::options::Options;
use super::record_file::finished_rows;
use super::schedule::follows_trace;
use crate::clock::Nanos;
use crate::dataset::Row;
use crate::load::row_at;
use crate::record::RequestRecord;
use std::sync::Arc;

/// Where a later session is joined to the earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seam {
    from: Nanos,
    to: Nanos,
}

impl Seam {
    /// The seam of a session whose load begins at `began`; nothing without earlier records.
    pub(super) fn after(earlier: &[RequestRecord], began: Nanos) -> Option<Self> {
        let last = earlier.iter().map(|record| record.finished).max()?;
        Some(Self {
            from: began,
            to: last,
        })
    }

    /// A record of the later session on the time line of both.
    pub(super) fn joined(self, record: RequestRecord) -> RequestRecord {
        record.moved(self.from, self.to)
    }
}

/// How many seconds the earlier session's load lasted.
pub(super) fn seconds(earlier: &[RequestRecord]) -> f64 {
    let first = earlier.iter().map(|record| record.sent).min();
    let last = earlier.iter().map(|record| record.finished).max();
    last.unwrap_or_default()
        .seconds_since(first.unwrap_or_default())
}

/// The records of rows that are done: a conversation that was cut short is sent again.
pub(super) fn done(records: Vec<RequestRecord>, rows: &[Arc<Row>]) -> Vec<RequestRecord> {
    let done = finished_rows(&records, |place| row_at(rows, place).rounds());
    let mut records = records;
    records.retain(|record| done.contains(&record.row));
    records
}

/// Whether a run with these options can go on after an interruption.
pub(super) fn is_possible(options: &Options, rows: &[Arc<Row>]) -> bool {
    refusal(options, rows).is_none()
}

/// Refuses to go on where the rest of a load would not be the rest of it.
pub(super) fn check(options: &Options, rows: &[Arc<Row>]) -> Result<(), ServingError> {
    refusal(options, rows).map_or(Ok(()), |reason| {
        Err(ServingError::Refused(reason.to_owned()))
    })
}

fn refusal(options: &Options, rows: &[Arc<Row>]) -> Option<&'static str> {
    if options.own.given("ramp") {
        return Some(
            "--resume: a ramp begins anew with every session; run it whole, without --resume",
        );
    }
    follows_trace(options, rows).then_some(
        "--resume: a trace is replayed from its beginning; run it whole, without --resume",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Asked, Chunk, Due};

    const MS: u64 = 1_000_000;

    fn record(row: usize, sent: u64) -> RequestRecord {
        let due = Due {
            scheduled: Nanos((sent - 5) * MS),
            released: Nanos(sent * MS),
        };
        let mut record = RequestRecord::begun(row, 0, due, due.released, Asked::default());
        record.first_byte = Some(Nanos((sent + 40) * MS));
        let chunks = [50, 60].map(|after| Chunk {
            at: Nanos((sent + after) * MS),
            tokens: 1,
            text_end: 0,
        });
        record.chunks = chunks.into_iter().collect();
        record.finished = Nanos((sent + 60) * MS);
        record
    }

    #[test]
    fn the_later_session_follows_the_earlier_one_whatever_the_clocks_say() {
        let earlier = [record(0, 9_000), record(1, 8_000)];
        // The new clock began at zero: its load begins before the old one's did.
        let seam = Seam::after(&earlier, Nanos(2_000 * MS)).unwrap();
        let joined = seam.joined(record(2, 2_010));
        assert_eq!(joined.sent, Nanos(9_070 * MS));
        assert_eq!(joined.scheduled, Nanos(9_065 * MS));
        assert_eq!(joined.first_byte, Some(Nanos(9_110 * MS)));
        let chunks: Vec<u64> = joined.chunks.iter().map(|chunk| chunk.at.0 / MS).collect();
        assert_eq!(chunks, [9_120, 9_130]);
        assert_eq!(joined.finished, Nanos(9_130 * MS));
        assert!((seconds(&earlier) - 1.06).abs() < 1e-9);
        assert_eq!(Seam::after(&[], Nanos(5)), None);
    }
}
