//! The state, and everything about it that is neither planning nor committing.

use std::{collections::VecDeque, ops::Range};

use kv::{Page, PrefixCache};
use sampling::FinishReason;

use crate::{
    Busy, Event, Progress, Row, SchedulerConfig, SchedulerStats, SequenceId, StepId,
    budget::NewTokenRatio, queue::Queue, rows::Rows, running::Phase,
};

/// Decides what each step does and takes in what it produced.
///
/// The calls may interleave in any way: `plan` does not wait for earlier outcomes, as long as no
/// more than the configured number of steps is in flight; outcomes are committed in the order of
/// their plans.
#[derive(Debug)]
pub struct Scheduler {
    pub(crate) config: SchedulerConfig,
    pub(crate) cache: PrefixCache,
    pub(crate) queue: Queue,
    pub(crate) rows: Rows,
    /// Steps planned but not committed, oldest first.
    pub(crate) flights: VecDeque<Flight>,
    pub(crate) ratio: NewTokenRatio,
    /// Rows that the next plan closes.
    pub(crate) closes: Vec<Row>,
    /// The sequence whose turn it was in the last plan, and which did not fit.
    pub(crate) no_room_for: Option<SequenceId>,
    pub(crate) events: Vec<Event>,
    /// Only the counters are kept up to date; `stats` fills in the gauges.
    pub(crate) counters: SchedulerStats,
}

/// A step in flight.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) id: StepId,
    pub(crate) rows: Vec<FlightRow>,
    /// Pages replaced in the tables of running rows, which steps up to this one may still read.
    pub(crate) retired: Vec<Page>,
}

/// What a step in flight does for one row.
#[derive(Debug)]
pub(crate) struct FlightRow {
    pub(crate) row: Row,
    pub(crate) tokens: u32,
    pub(crate) samples: bool,
    pub(crate) scored: Range<u32>,
}

impl Scheduler {
    /// A scheduler with all pages free and nothing to do.
    pub fn new(config: SchedulerConfig) -> Self {
        assert!(
            config.max_rows > 0,
            "at least one sequence must be able to run"
        );
        assert!(
            config.run_ahead > 0,
            "at least one step must be able to be in flight"
        );
        assert!(
            config.max_sequence_tokens() > 0,
            "a sequence must have room for a token"
        );
        Self {
            cache: PrefixCache::new(config.pages, config.page_size),
            queue: Queue::new(config.order),
            rows: Rows::new(config.max_rows),
            flights: VecDeque::new(),
            ratio: NewTokenRatio::new(config.conservativeness),
            closes: Vec::new(),
            no_room_for: None,
            events: Vec::new(),
            counters: SchedulerStats::default(),
            config,
        }
    }

    /// The settings.
    pub fn config(&self) -> &SchedulerConfig {
        &self.config
    }

    /// Whether no sequence waits or runs and no step is in flight.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.rows.is_empty() && self.flights.is_empty()
    }

    /// Ends a sequence from outside: the client went away, or something above the tokens (a stop
    /// string, a grammar) found its end.
    ///
    /// Returns its last progress, with `reason`; `None` when it has ended already. Tokens still
    /// in flight are dropped; row and pages are released when no step names them.
    pub fn cancel(&mut self, id: SequenceId, reason: FinishReason) -> Option<Progress> {
        if let Some(sequence) = self.queue.remove(id) {
            self.count_end(&reason);
            return Some(sequence.progress(Some(reason)));
        }
        let row = self.rows.row_of(id)?;
        let running = self.rows.running(row);
        if running.phase == Phase::Ended {
            return None;
        }
        running.phase = Phase::Ended;
        let is_in_flight = running.in_flight > 0;
        self.count_end(&reason);
        let progress = self.rows.running(row).sequence.progress(Some(reason));
        if !is_in_flight {
            self.release(row);
        }
        Some(progress)
    }

    /// The waiting sequence that is less important than a newcomer of this priority, where priorities count: who would
    /// have to leave a full queue for it.
    pub fn displaced_by(&self, priority: Option<i32>) -> Option<SequenceId> {
        self.queue.displaced_by(priority)
    }

    /// Forgets all cached prefixes. Only possible while nothing waits or runs.
    pub fn flush(&mut self) -> Result<(), Busy> {
        if !self.is_idle() {
            return Err(Busy {
                running: self.rows.len(),
                waiting: self.queue.len(),
            });
        }
        self.cache.clear();
        Ok(())
    }

    /// What happened while planning since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// A snapshot of gauges and counters.
    pub fn stats(&self) -> SchedulerStats {
        let counts = self.cache.counts();
        let page_size = u64::from(self.config.page_size.tokens());
        SchedulerStats {
            running: self.rows.len(),
            waiting: self.queue.len(),
            in_flight: self.flights.len(),
            used_tokens: u64::from(counts.used()) * page_size,
            total_tokens: u64::from(counts.total) * page_size,
            evictable_tokens: u64::from(counts.evictable) * page_size,
            new_token_ratio: self.ratio.get(),
            evicted_tokens: self.cache.evicted() * page_size,
            ..self.counters
        }
    }

    pub(crate) fn count_end(&mut self, reason: &FinishReason) {
        match reason {
            FinishReason::Stop { .. } | FinishReason::Length => self.counters.finished += 1,
            FinishReason::Abort(_) => self.counters.cancelled += 1,
        }
    }
}

impl Drop for Scheduler {
    /// Leases complain when they are dropped; here nothing is left that they could protect.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let rows: Vec<_> = self.rows.iter().map(|running| running.row).collect();
        for row in rows {
            let running = self.rows.remove(row);
            self.cache.release(running.lease);
        }
    }
}
