//! Running sequences that give way to a more important one.

use std::cmp::Reverse;

use crate::{
    Event, OutrankEvent, Row, Scheduler,
    budget::first_reserve,
    running::{Phase, Running},
    sequence::Sequence,
};

impl Scheduler {
    /// Retracts as few less important sequences as it takes for the first waiting one to run, if those are enough.
    /// Called before a step is put together, so that none of them is in it.
    pub(crate) fn outrank(&mut self) {
        let rules = self.config.order.priorities();
        let Some(threshold) = rules.and_then(|rules| rules.preemption_threshold) else {
            return;
        };
        let leaving = |running: &Running| running.phase == Phase::Retracting;
        if self.rows.iter().any(leaving) {
            return;
        }
        let first = self.queue.first(1, &self.cache);
        let Some(wanted) = first.first().and_then(|&id| self.queue.get(id)) else {
            return;
        };
        let did_not_fit = self.no_room_for == Some(wanted.id) || self.rows.next_free().is_none();
        if !did_not_fit || self.shares_a_prefix_in_progress(wanted) {
            return;
        }
        let victims = self.victims_for(wanted, i64::from(threshold));
        if victims.is_empty() {
            return;
        }
        let sequences = victims.len() as u32;
        for row in victims {
            self.retract(row);
        }
        self.counters.retracted += u64::from(sequences);
        self.events.push(Event::Outrank(OutrankEvent { sequences }));
    }

    /// The least important rows, the youngest among equals, without which `wanted` fits; none when it fits not even
    /// without all of them.
    fn victims_for(&self, wanted: &Sequence, threshold: i64) -> Vec<Row> {
        let rules = self.config.order.priorities().unwrap_or_default();
        let importance = |sequence: &Sequence| rules.importance(sequence.new.priority);
        let least = importance(wanted) - threshold;
        let mut lesser: Vec<_> = self
            .rows
            .iter()
            .filter(|running| running.phase == Phase::Live)
            .filter(|running| importance(&running.sequence) < least)
            .collect();
        lesser.sort_unstable_by_key(|running| {
            let sequence = &running.sequence;
            (importance(sequence), Reverse(sequence.id))
        });
        let pages = |running: &Running| {
            self.pages_freed_by(running) + u64::from(self.reserved_for(running))
        };
        let mut demand = u64::from(self.pages_to_begin(wanted)) + u64::from(self.reserved_pages());
        let supply = u64::from(self.cache.counts().available());
        let mut rows = self.config.max_rows - self.rows.len();
        let mut victims = Vec::new();
        for running in lesser {
            if rows > 0 && demand <= supply {
                break;
            }
            // what it frees and what is no longer kept for it
            demand = demand.saturating_sub(pages(running));
            rows += 1;
            victims.push(running.row);
        }
        let alone = victims.len() as u32 == self.rows.len();
        if rows > 0 && (demand <= supply || alone) {
            victims
        } else {
            Vec::new()
        }
    }

    /// Pages for a waiting sequence and its first output, as if nothing of it were cached.
    fn pages_to_begin(&self, sequence: &Sequence) -> u32 {
        let page_size = self.config.page_size;
        page_size.pages_for(sequence.len() + first_reserve(sequence))
    }
}
