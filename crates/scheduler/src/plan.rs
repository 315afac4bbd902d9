//! The next step: generation first, then prompts.

use std::{sync::Arc, time::Duration};

use kv::PrefixLease;

use crate::{
    Constraint, DecodeEvent, Event, Mix, PageCopy, PrefillEvent, RowInput, RowOpen, RowPlan,
    Sample, Scheduler, StepId, StepPlan,
    admit::Opened,
    budget::{PromptBudget, first_reserve},
    running::{Phase, Running},
    scheduler::{Flight, FlightRow},
};

/// Waiting sequences looked at for one step, beyond the rows that are free: some may have to wait
/// for a prefix that is being computed.
const LOOK_AHEAD: usize = 64;

/// A step being put together.
#[derive(Default)]
struct Draft {
    rows: Vec<RowPlan>,
    opens: Vec<RowOpen>,
    copies: Vec<PageCopy>,
    /// Keep the pages to copy from until the plan is made; later plans run later.
    copied: Vec<PrefixLease>,
    decoding: u32,
    prompt_tokens: u32,
    cached_tokens: u32,
}

impl Scheduler {
    /// The next step, or `None` when there is nothing to do before another outcome is committed
    /// or another sequence is admitted. `now` is the time since any fixed moment.
    pub fn plan(&mut self, now: Duration) -> Option<StepPlan> {
        if self.flights.len() >= self.config.run_ahead as usize {
            return None;
        }
        let running = self.rows.len();
        let retracted = self.make_room();
        if !retracted {
            self.outrank();
        }
        let mut draft = Draft::default();
        match self.config.mix {
            Mix::Mixed => {
                self.plan_decoding(&mut draft);
                self.plan_prompts(&mut draft, now, retracted);
            }
            Mix::PrefillFirst => {
                self.plan_prompts(&mut draft, now, retracted);
                if draft.rows.is_empty() {
                    self.plan_decoding(&mut draft);
                }
            }
        }
        for lease in draft.copied.drain(..) {
            self.cache.release(lease);
        }
        if draft.rows.is_empty() {
            let may_wait = !self.flights.is_empty() || self.is_idle();
            assert!(
                may_wait,
                "sequences remain, but no step can be planned for them"
            );
            return None;
        }
        self.note_events(&draft, running);
        Some(self.submit(draft))
    }

    fn plan_decoding(&mut self, draft: &mut Draft) {
        for running in self.rows.iter_mut().filter(|running| running.can_decode()) {
            let Some(pages) = self
                .cache
                .take(running.table.missing_for(running.planned + 1))
            else {
                continue;
            };
            running.table.append(&pages);
            draft.rows.push(RowPlan {
                row: running.row,
                start: running.planned,
                input: RowInput::LastSampled,
                pages: running.new_pages(),
                sample: sample(running),
                scored: 0..0,
            });
            draft.decoding += 1;
        }
    }

    fn plan_prompts(&mut self, draft: &mut Draft, now: Duration, retracted: bool) {
        self.no_room_for = None;
        let mut budget = PromptBudget::new(&self.config, draft.decoding);
        for running in self
            .rows
            .iter_mut()
            .filter(|running| running.has_prompt_left())
        {
            plan_chunk(running, &mut budget, draft);
        }
        let gives_back = |running: &Running| running.phase == Phase::Retracting;
        if retracted || self.rows.iter().any(gives_back) || self.queue.is_empty() {
            return;
        }
        let free_rows = (self.config.max_rows - self.rows.len()) as usize;
        if budget.is_spent() || free_rows == 0 {
            return;
        }
        let mut reserved = self.reserved_pages();
        let look_at = free_rows + LOOK_AHEAD;
        for id in self.queue.first(look_at, &self.cache) {
            let Some(sequence) = self.queue.get(id) else {
                continue;
            };
            if budget.is_spent() || self.rows.next_free().is_none() {
                break;
            }
            if self.shares_a_prefix_in_progress(sequence) {
                continue;
            }
            if !budget.can_begin(sequence) {
                break;
            }
            let Some(opened) = self.open(id, reserved) else {
                self.no_room_for = Some(id);
                break;
            };
            reserved += opened
                .running
                .pages_for_more(first_reserve(&opened.running.sequence));
            self.start(opened, &mut budget, draft, now);
        }
    }

    /// Makes an opened sequence part of the step.
    fn start(
        &mut self,
        opened: Opened,
        budget: &mut PromptBudget,
        draft: &mut Draft,
        now: Duration,
    ) {
        let Opened {
            mut running,
            partial,
        } = opened;
        if let Some(partial) = partial {
            let to = running.table.private()[0];
            draft.copies.push(PageCopy {
                from: partial.page,
                to,
                tokens: partial.tokens,
            });
            draft.copied.push(partial.lease);
        }
        let cached = running.planned;
        if running.sequence.first_planned.is_none() {
            running.sequence.first_planned = Some(now);
            running.sequence.cached_tokens = cached;
        }
        draft.cached_tokens += cached;
        draft.opens.push(running.open());
        plan_chunk(&mut running, budget, draft);
        self.rows.insert(running);
    }

    /// Turns the draft into a plan and remembers what is in flight.
    fn submit(&mut self, draft: Draft) -> StepPlan {
        let id = StepId(self.counters.steps);
        self.counters.steps += 1;
        self.counters.prompt_tokens += u64::from(draft.prompt_tokens);
        self.counters.cached_tokens += u64::from(draft.cached_tokens);
        if draft.decoding > 0 {
            self.ratio.decay();
        }
        let mut rows = Vec::with_capacity(draft.rows.len());
        for plan in &draft.rows {
            let samples = plan.sample != Sample::No;
            let running = self.rows.running(plan.row);
            running.planned = plan.end();
            running.in_flight += 1;
            running.sampling += u32::from(samples);
            let (row, tokens, scored) = (plan.row, plan.tokens(), plan.scored.clone());
            rows.push(FlightRow {
                row,
                tokens,
                samples,
                scored,
            });
        }
        self.flights.push_back(Flight {
            id,
            rows,
            retired: Vec::new(),
        });
        StepPlan {
            id,
            closes: std::mem::take(&mut self.closes),
            opens: draft.opens,
            copies: draft.copies,
            rows: draft.rows,
        }
    }

    fn note_events(&mut self, draft: &Draft, running: u32) {
        let stats = self.stats();
        if draft.prompt_tokens > 0 {
            self.events.push(Event::Prefill(PrefillEvent {
                new_sequences: draft.opens.len() as u32,
                new_tokens: draft.prompt_tokens,
                cached_tokens: draft.cached_tokens,
                token_usage: stats.token_usage(),
                running,
                waiting: stats.waiting,
            }));
        }
        if draft.decoding > 0 {
            self.events.push(Event::Decode(DecodeEvent {
                rows: draft.decoding,
                running: stats.running,
                used_tokens: stats.used_tokens,
                token_usage: stats.token_usage(),
                waiting: stats.waiting,
            }));
        }
    }
}

/// Adds as much of a row's history as the budget allows.
fn plan_chunk(running: &mut Running, budget: &mut PromptBudget, draft: &mut Draft) {
    let history = Arc::clone(&running.sequence.history);
    let len = history.len() as u32;
    let start = running.planned;
    let Some(range) = budget.take(&running.sequence, start) else {
        return;
    };
    draft.prompt_tokens += range.len() as u32;
    let is_last = range.end == len;
    let samples = is_last && running.sequence.remaining() > 0;
    draft.rows.push(RowPlan {
        row: running.row,
        start,
        scored: running.sequence.scored_by(&range),
        input: RowInput::Prompt(history, range),
        pages: running.new_pages(),
        sample: if samples { sample(running) } else { Sample::No },
    });
}

fn sample(running: &Running) -> Sample {
    match running.sequence.new.constraint {
        Constraint::None => Sample::Free,
        Constraint::Grammar => Sample::Masked,
    }
}
