//! Giving pages back: retraction and release.

use std::cmp::Reverse;

use kv::Page;

use crate::{
    Event, RetractEvent, Reuse, Row, Scheduler,
    budget::STEPS_AFTER_RETRACTION,
    running::{Phase, Running},
};

impl Scheduler {
    /// Retracts sequences until the others can go on. Says whether any was.
    ///
    /// A page per row and run-ahead step is kept in reserve, because a row in flight gives its
    /// pages back only when its last step returns.
    pub(crate) fn make_room(&mut self) -> bool {
        if self.pages_to_go_on(self.config.run_ahead) <= self.pages_to_come() {
            return false;
        }
        let mut retracted = 0;
        let steps = self.config.run_ahead.max(STEPS_AFTER_RETRACTION);
        while self.pages_to_go_on(steps) > self.pages_to_come()
            && let Some(victim) = self.next_victim()
        {
            self.retract(victim);
            retracted += 1;
        }
        if retracted == 0 {
            return false;
        }
        self.counters.retracted += u64::from(retracted);
        let ratio_before = self.ratio.get();
        let live = || {
            self.rows
                .iter()
                .filter(|running| running.phase == Phase::Live)
        };
        let outputs = live()
            .map(|running| running.sequence.outputs.len() as u64)
            .sum();
        let limit = live()
            .map(|running| u64::from(running.sequence.max_new_tokens))
            .sum();
        self.ratio
            .after_retraction(live().count() as u32, outputs, limit);
        self.events.push(Event::Retract(RetractEvent {
            sequences: retracted,
            ratio_before,
            ratio_after: self.ratio.get(),
        }));
        true
    }

    /// Pages that all live rows together miss for `steps` more steps.
    fn pages_to_go_on(&self, steps: u32) -> u64 {
        let live = self
            .rows
            .iter()
            .filter(|running| running.phase == Phase::Live);
        live.map(|running| u64::from(running.pages_for_more(steps)))
            .sum()
    }

    /// Pages that can be had now or when the steps in flight have returned.
    fn pages_to_come(&self) -> u64 {
        let leaving = self
            .rows
            .iter()
            .filter(|running| running.phase != Phase::Live);
        let retired: usize = self.flights.iter().map(|flight| flight.retired.len()).sum();
        let leaving: u64 = leaving.map(|running| self.pages_freed_by(running)).sum();
        u64::from(self.cache.counts().available()) + leaving + retired as u64
    }

    /// Pages that can be had again when a running sequence has left.
    pub(crate) fn pages_freed_by(&self, running: &Running) -> u64 {
        let sole = self.cache.pages_pinned_only_by(&running.lease);
        u64::from(sole) + running.table.private().len() as u64
    }

    /// The live row with the fewest outputs, the longest prompt among equals, then the youngest; where priorities count
    /// first, the least important. Never the last one: somebody must go on.
    fn next_victim(&self) -> Option<Row> {
        let mut live: Vec<_> = self
            .rows
            .iter()
            .filter(|running| running.phase == Phase::Live)
            .collect();
        if live.len() < 2 {
            return None;
        }
        let rules = self.config.order.priorities();
        let rules = rules.filter(|rules| rules.retract_least_important);
        live.sort_unstable_by_key(|running| {
            let sequence = &running.sequence;
            (
                rules.map_or(0, |rules| rules.importance(sequence.new.priority)),
                sequence.outputs.len(),
                Reverse(sequence.prompt_len()),
                Reverse(sequence.id),
            )
        });
        Some(live[0].row)
    }

    pub(crate) fn retract(&mut self, row: Row) {
        let running = self.rows.running(row);
        running.phase = Phase::Retracting;
        if running.in_flight == 0 {
            self.release(row);
        }
    }

    /// Frees the row and pages of a sequence that no step names any more. What it computed stays
    /// cached; a retracted sequence goes back to the queue with its outputs.
    pub(crate) fn release(&mut self, row: Row) {
        let duplicates = self.share_pages(row);
        self.cache.give_back(&duplicates);
        let mut running = self.rows.remove(row);
        self.cache.release(running.lease);
        self.cache.give_back(&running.table.into_private());
        self.closes.push(row);
        if running.phase == Phase::Retracting {
            running.sequence.retractions += 1;
            running.sequence.keep_outputs();
            self.queue.push(running.sequence);
        }
    }

    /// Offers the row's computed full pages to the prefix cache, so that others can use them.
    /// Returns those that it had already in other pages, which now stand in the row's table: they
    /// must be given back when no step in flight can read them.
    pub(crate) fn share_pages(&mut self, row: Row) -> Vec<Page> {
        if self.config.reuse == Reuse::Off {
            return Vec::new();
        }
        let page_size = self.config.page_size;
        let running = self.rows.running(row);
        // beyond the known tokens lie those of steps that overshot the end
        let known_tokens = running.committed.min(running.sequence.len());
        let (shared, full) = (running.table.shared(), page_size.full_pages(known_tokens));
        if full <= shared {
            return Vec::new();
        }
        let positions = |pages: u32| (pages * page_size.tokens()) as usize;
        let tokens = running.sequence.tokens(positions(shared)..positions(full));
        let pages = &running.table.pages()[shared as usize..full as usize];
        let known = self.cache.extend(&mut running.lease, &tokens, pages);
        let duplicates = running.table.share(full - shared, &known);
        if !duplicates.is_empty() {
            running.told = running.told.min(shared);
        }
        duplicates
    }
}
