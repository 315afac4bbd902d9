//! Rows, pages and phases agree.

use thiserror::Error;

use crate::{
    Scheduler,
    running::{Phase, Running},
};

/// What does not add up. Always a bug, never a state to go on from.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum IntegrityError {
    /// The pages do not add up.
    #[error("pages: {0}")]
    Pages(#[from] kv::IntegrityError),
    /// A row contradicts itself or the steps in flight.
    #[error("row {row}: {what}")]
    Row {
        /// The row's number.
        row: u32,
        /// What is wrong.
        what: &'static str,
    },
}

impl Scheduler {
    /// Checks that pages, rows, phases and steps in flight agree. Meant for idle moments and
    /// tests: it looks at every page.
    pub fn check_integrity(&self) -> Result<(), IntegrityError> {
        let private = self.rows.iter().flat_map(|running| running.table.private());
        let retired = self.flights.iter().flat_map(|flight| &flight.retired);
        self.cache
            .check_integrity(private.chain(retired).copied())?;
        self.rows
            .iter()
            .try_for_each(|running| self.check_row(running))
    }

    fn check_row(&self, running: &Running) -> Result<(), IntegrityError> {
        let row = running.row;
        let wrong = |what| Err(IntegrityError::Row { row: row.0, what });
        let sequence = &running.sequence;
        let named = || {
            self.flights
                .iter()
                .flat_map(|flight| &flight.rows)
                .filter(|r| r.row == row)
        };
        if self.rows.row_of(sequence.id) != Some(row) || self.queue.get(sequence.id).is_some() {
            return wrong("its sequence is somewhere else too");
        }
        if running.in_flight as usize != named().count() {
            return wrong("the steps in flight that name it are counted wrongly");
        }
        if running.sampling as usize != named().filter(|named| named.samples).count() {
            return wrong("the samples in flight are counted wrongly");
        }
        if running.planned != running.committed + named().map(|named| named.tokens).sum::<u32>() {
            return wrong("planned and committed positions differ by more than what is in flight");
        }
        if running
            .table
            .missing_for(running.planned.max(sequence.history.len() as u32))
            > 0
        {
            return wrong("positions are planned that have no page");
        }
        if running.table.shared() * self.config.page_size.tokens() > running.committed {
            return wrong("pages are shared that were not computed");
        }
        if running.phase != Phase::Live && running.in_flight == 0 {
            return wrong("it is done and unnamed, but not released");
        }
        Ok(())
    }
}
