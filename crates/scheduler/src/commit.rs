//! What a step produced.

use std::time::Duration;

use sampling::FinishReason;

use crate::{
    Progress, Row, RowOutcome, Scheduler, StepOutcome,
    running::{Phase, Running},
    scheduler::FlightRow,
};

impl Scheduler {
    /// Takes in the outcome of the oldest step in flight and says what is new about its
    /// sequences. Tokens of sequences that ended meanwhile are dropped.
    pub fn commit(&mut self, outcome: StepOutcome, now: Duration) -> Vec<Progress> {
        let flight = self
            .flights
            .pop_front()
            .expect("an outcome belongs to a step in flight");
        assert_eq!(
            outcome.id, flight.id,
            "outcomes come back in the order of their plans"
        );
        assert_eq!(
            outcome.rows.len(),
            flight.rows.len(),
            "every planned row has an outcome"
        );
        let mut all = Vec::new();
        for (planned, outcome) in flight.rows.iter().zip(outcome.rows) {
            assert_eq!(
                planned.row, outcome.row,
                "outcomes are in the order of the rows"
            );
            all.extend(self.commit_row(planned, outcome, now));
        }
        self.cache.give_back(&flight.retired);
        all
    }

    fn commit_row(
        &mut self,
        planned: &FlightRow,
        outcome: RowOutcome,
        now: Duration,
    ) -> Option<Progress> {
        let running = self.rows.running(planned.row);
        let was_prefilling = running.is_prefilling();
        running.in_flight -= 1;
        running.committed += planned.tokens;
        running.sampling -= u32::from(planned.samples);
        let progress = if running.phase == Phase::Ended {
            self.counters.overshoot_tokens += outcome.sampled.len() as u64;
            None
        } else {
            self.counters.generated_tokens += outcome.sampled.len() as u64;
            extend(running, planned, outcome, now)
        };
        if let Some(reason) = progress
            .as_ref()
            .and_then(|progress| progress.finish.as_ref())
        {
            running.phase = Phase::Ended;
            self.count_end(reason);
        }
        self.settle(planned.row, was_prefilling);
        progress
    }

    /// Releases a row that is done and unnamed; shares what a prefill has computed.
    fn settle(&mut self, row: Row, was_prefilling: bool) {
        let running = self.rows.running(row);
        if running.phase != Phase::Live && running.in_flight == 0 {
            self.release(row);
        } else if running.phase == Phase::Live && was_prefilling {
            let duplicates = self.share_pages(row);
            match self.flights.back_mut() {
                Some(last) => last.retired.extend(duplicates),
                None => self.cache.give_back(&duplicates),
            }
        }
    }
}

/// Appends what the step produced to the sequence; `None` when there is nothing to tell.
fn extend(
    running: &mut Running,
    planned: &FlightRow,
    outcome: RowOutcome,
    now: Duration,
) -> Option<Progress> {
    let is_prefilled = running.committed >= running.sequence.history.len() as u32;
    let sequence = &mut running.sequence;
    let scored = planned.scored.len();
    assert_eq!(
        outcome.prompt_log_probs.len(),
        scored,
        "every scored token has an outcome"
    );
    assert_eq!(
        outcome.sampled.len(),
        usize::from(planned.samples),
        "a row samples as planned"
    );
    sequence.scored = sequence.scored.max(planned.scored.end);
    let mut finish = None;
    let (mut tokens, mut log_probs) = (Vec::new(), Vec::new());
    for sampled in outcome.sampled {
        sequence.first_token.get_or_insert(now);
        let index = sequence.outputs.len() as u32;
        finish = sequence
            .new
            .stop
            .check(index, sampled.token, sequence.max_new_tokens);
        sequence.outputs.push(sampled.token);
        tokens.push(sampled.token);
        log_probs.extend(sampled.log_probs);
    }
    if is_prefilled && sequence.max_new_tokens == 0 {
        finish = Some(FinishReason::Length);
    }
    if tokens.is_empty() && scored == 0 && finish.is_none() {
        return None;
    }
    let prompt_log_probs = outcome.prompt_log_probs;
    Some(Progress {
        tokens,
        log_probs,
        prompt_log_probs,
        ..sequence.progress(finish)
    })
}
