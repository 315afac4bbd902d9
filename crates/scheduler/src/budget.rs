//! How much of a step, and of the pages, may be spent.

use std::ops::Range;

use crate::{SchedulerConfig, sequence::Sequence};

/// More than this is never reserved for one sequence's output.
const MOST_RESERVED: u32 = 4096;

/// Steps that must be possible for every row after a retraction.
pub(crate) const STEPS_AFTER_RETRACTION: u32 = 20;

/// Steps over which the reserve decays to its least.
const DECAY_STEPS: f64 = 600.0;

/// The least decay of a step, so that a reserve that grew shrinks again.
const LEAST_DECAY: f64 = 0.001;

/// The least reserve as a share of the first.
const LEAST_SHARE: f64 = 0.14;

/// The share of a running sequence's remaining output that admission reserves.
///
/// Few sequences reach their limit: the share shrinks while all goes well and grows when the
/// estimate was wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewTokenRatio {
    now: f64,
    least: f64,
    decay: f64,
}

impl NewTokenRatio {
    pub(crate) fn new(conservativeness: f64) -> Self {
        let first = (0.7 * conservativeness).clamp(0.0, 1.0);
        let least = first * LEAST_SHARE;
        Self {
            now: first,
            least,
            decay: ((first - least) / DECAY_STEPS).max(LEAST_DECAY),
        }
    }

    pub(crate) fn get(self) -> f64 {
        self.now
    }

    /// Another step generated without trouble.
    pub(crate) fn decay(&mut self) {
        self.now = (self.now - self.decay).max(self.least);
    }

    /// Sequences were retracted; those left have made `outputs` of at most `limit` tokens.
    pub(crate) fn after_retraction(&mut self, rows: u32, outputs: u64, limit: u64) {
        let expected = outputs + u64::from(STEPS_AFTER_RETRACTION * rows);
        self.now = (expected as f64 / limit.max(1) as f64).clamp(self.least, 1.0);
    }

    /// Output tokens to keep room for while a sequence runs.
    pub(crate) fn reserve(self, sequence: &Sequence) -> u32 {
        let most = sequence.remaining().min(MOST_RESERVED);
        (f64::from(most) * self.now).ceil() as u32
    }
}

/// Output tokens to find room for when a sequence begins to run.
pub(crate) fn first_reserve(sequence: &Sequence) -> u32 {
    sequence.remaining().min(MOST_RESERVED)
}

/// Prompt tokens that may still join a step, and numbers of their scores.
#[derive(Debug)]
pub(crate) struct PromptBudget {
    left: u32,
    numbers: u32,
    may_split: bool,
    is_used: bool,
}

impl PromptBudget {
    /// The budget of a step that generates for `decoding` rows.
    pub(crate) fn new(config: &SchedulerConfig, decoding: u32) -> Self {
        Self {
            left: config.prompt_tokens_beside(decoding),
            numbers: config.max_step_scores,
            may_split: config.chunk != u32::MAX,
            is_used: false,
        }
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// How many of a prompt's `tokens` this step takes; `None` when it must wait. A prompt that
    /// may not be split and is longer than any budget goes alone.
    fn offer(&self, tokens: u32) -> Option<u32> {
        if self.may_split {
            return (self.left > 0).then(|| tokens.min(self.left));
        }
        (tokens <= self.left || !self.is_used).then_some(tokens)
    }

    /// Whether a step would take any token of a sequence that is not open yet.
    pub(crate) fn can_begin(&self, sequence: &Sequence) -> bool {
        let tokens = self.offer(sequence.history.len() as u32);
        tokens.is_some() && sequence.numbers_to_begin() <= self.numbers
    }

    /// The part of a sequence's history from `start` on that the step takes, which is spent then.
    pub(crate) fn take(&mut self, sequence: &Sequence, start: u32) -> Option<Range<u32>> {
        let tokens = self.offer(sequence.history.len() as u32 - start)?;
        let input = sequence.within_numbers(start..start + tokens, self.numbers);
        if input.is_empty() {
            return None;
        }
        self.left = self.left.saturating_sub(input.len() as u32);
        self.numbers -= sequence.numbers_of(&input);
        self.is_used = true;
        Some(input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_decays_to_a_seventh_in_six_hundred_steps() {
        let mut ratio = NewTokenRatio::new(1.0);
        assert!((ratio.get() - 0.7).abs() < 1e-9);
        for _ in 0..300 {
            ratio.decay();
        }
        assert!((ratio.get() - f64::midpoint(0.7, 0.098)).abs() < 1e-9);
        for _ in 0..400 {
            ratio.decay();
        }
        assert!((ratio.get() - 0.098).abs() < 1e-9);
    }

    #[test]
    fn a_retraction_raises_the_reserve_to_what_was_really_generated() {
        let mut ratio = NewTokenRatio::new(1.0);
        ratio.after_retraction(2, 360, 500);
        assert!((ratio.get() - 0.8).abs() < 1e-9);
        ratio.after_retraction(2, 500, 500);
        assert!((ratio.get() - 1.0).abs() < 1e-9);
    }
}
