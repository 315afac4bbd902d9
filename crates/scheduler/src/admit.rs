//! Will it fit: at all, and now.

use kv::{PageTable, PartialPage};

use crate::{
    NewSequence, Rejected, Reuse, Scheduler, SequenceId,
    budget::first_reserve,
    running::{Phase, Running},
    sequence::Sequence,
};

/// A waiting sequence that could share at least this many more tokens with one that is being
/// prefilled waits for it.
const WORTH_WAITING: u32 = 32;

/// A sequence that got its row and pages.
pub(crate) struct Opened {
    pub(crate) running: Running,
    /// A page whose first tokens are worth copying into the first private page.
    pub(crate) partial: Option<PartialPage>,
}

impl Scheduler {
    /// Puts a sequence into the queue. What can never fit is refused here, so that everything in
    /// the queue can run if need be alone.
    pub fn admit(&mut self, new: NewSequence) -> Result<SequenceId, Rejected> {
        let limit = self.config.max_sequence_tokens();
        let prompt = new.prompt.len() as u64;
        if prompt == 0 {
            return Err(Rejected::EmptyPrompt);
        }
        if prompt > u64::from(limit) {
            return Err(Rejected::PromptTooLong { prompt, limit });
        }
        let room = limit - prompt as u32;
        let max_new_tokens = new.stop.max_new_tokens().unwrap_or(room);
        if max_new_tokens > room {
            let max_new_tokens = u64::from(max_new_tokens);
            return Err(Rejected::TooManyTokens {
                prompt,
                max_new_tokens,
                limit,
            });
        }
        let sequence = Sequence::new(SequenceId(self.counters.admitted), new, max_new_tokens);
        let (numbers, limit) = (sequence.numbers_to_begin(), self.config.max_step_scores);
        if numbers > limit {
            return Err(Rejected::TooManyScores { numbers, limit });
        }
        let id = sequence.id;
        self.counters.admitted += 1;
        self.queue.push(sequence);
        Ok(id)
    }

    /// Whether the sequence should wait because a running one is just computing a prefix of it.
    pub(crate) fn shares_a_prefix_in_progress(&self, sequence: &Sequence) -> bool {
        if self.config.reuse == Reuse::Off {
            return false;
        }
        let usable = &sequence.history[..sequence.cacheable() as usize];
        let worth = WORTH_WAITING.max(self.config.page_size.tokens());
        let shared = self
            .rows
            .iter()
            .filter(|running| running.is_prefilling())
            .filter(|running| running.sequence.new.namespace == sequence.new.namespace)
            .map(|running| kv::common_prefix(&running.sequence.history, usable) as u32)
            .max()
            .unwrap_or(0);
        shared >= worth
            && shared - worth >= self.cache.cached_tokens(&sequence.new.namespace, usable)
    }

    /// Gives a waiting sequence a row and pages for its whole history, if it fits beside what
    /// runs already. `reserved` pages are kept for the output of others.
    pub(crate) fn open(&mut self, id: SequenceId, reserved: u32) -> Option<Opened> {
        let row = self.rows.next_free()?;
        let sequence = self.queue.get(id)?;
        let output = first_reserve(sequence);
        // the output alone may rule it out, and a long prompt need not be looked up for that
        if !self.fits(self.config.page_size.full_pages(output), reserved) {
            return None;
        }
        let usable = match self.config.reuse {
            Reuse::Prefixes => sequence.cacheable() as usize,
            Reuse::Off => 0,
        };
        let namespace = sequence.new.namespace.clone();
        let (lease, pages) = self
            .cache
            .match_prefix(&namespace, &sequence.history[..usable]);
        let page_size = self.config.page_size;
        let mut table = PageTable::new(page_size, pages);
        let missing = table.missing_for(sequence.history.len() as u32);
        let wanted = table.missing_for(sequence.len() + output);
        let taken = if self.fits(wanted, reserved) {
            self.cache.take(missing)
        } else {
            None
        };
        let Some(private) = taken else {
            self.cache.release(lease);
            return None;
        };
        table.append(&private);
        let mut cached = table.shared() * page_size.tokens();
        let rest = &sequence.history[cached as usize..usable.max(cached as usize)];
        let partial = self.cache.match_partial_page(&lease, rest);
        cached += partial.as_ref().map_or(0, |partial| partial.tokens);
        let sequence = self
            .queue
            .depart(id)
            .expect("the sequence was found in the queue");
        let running = Running {
            sequence,
            row,
            lease,
            table,
            phase: Phase::Live,
            planned: cached,
            committed: cached,
            in_flight: 0,
            sampling: 0,
            told: 0,
        };
        Some(Opened { running, partial })
    }

    /// Whether `wanted` pages can be had beside `reserved` ones. Alone a sequence always fits:
    /// `admit` made sure, and an estimate must not keep it out.
    fn fits(&self, wanted: u32, reserved: u32) -> bool {
        let available = u64::from(self.cache.counts().available());
        self.rows.is_empty() || u64::from(wanted) + u64::from(reserved) <= available
    }

    /// Pages that running sequences may still need, by the current estimate.
    pub(crate) fn reserved_pages(&self) -> u32 {
        let live = self
            .rows
            .iter()
            .filter(|running| running.phase == Phase::Live);
        live.map(|running| self.reserved_for(running)).sum()
    }

    /// Pages that a running sequence may still need, by the current estimate.
    pub(crate) fn reserved_for(&self, running: &Running) -> u32 {
        let estimate = self.ratio.reserve(&running.sequence);
        running.pages_for_more(estimate.max(self.config.run_ahead))
    }
}
