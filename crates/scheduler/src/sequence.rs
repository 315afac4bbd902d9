//! A sequence, waiting or running.

use std::{ops::Range, sync::Arc, time::Duration};

use kv::Token;
use sampling::FinishReason;

use crate::{NewSequence, Progress, SequenceId};

/// A sequence and what was generated for it so far.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) id: SequenceId,
    pub(crate) new: NewSequence,
    /// Most tokens to generate, resolved against what one sequence may have.
    pub(crate) max_new_tokens: u32,
    /// The tokens to prefill when the sequence runs (again): the prompt, then earlier outputs.
    pub(crate) history: Arc<[Token]>,
    pub(crate) outputs: Vec<Token>,
    /// The first prompt token that may still have to be scored.
    pub(crate) scored: u32,
    pub(crate) cached_tokens: u32,
    pub(crate) retractions: u32,
    pub(crate) first_planned: Option<Duration>,
    pub(crate) first_token: Option<Duration>,
}

impl Sequence {
    pub(crate) fn new(id: SequenceId, new: NewSequence, max_new_tokens: u32) -> Self {
        let prompt_len = new.prompt.len() as u32;
        let start = new.log_probs.as_ref().and_then(|wanted| wanted.start);
        Self {
            id,
            max_new_tokens,
            history: Arc::clone(&new.prompt),
            outputs: Vec::new(),
            scored: start.map_or(prompt_len, |start| start.saturating_add(1).min(prompt_len)),
            cached_tokens: 0,
            retractions: 0,
            first_planned: None,
            first_token: None,
            new,
        }
    }

    pub(crate) fn prompt_len(&self) -> u32 {
        self.new.prompt.len() as u32
    }

    /// Prompt and outputs so far.
    pub(crate) fn len(&self) -> u32 {
        self.prompt_len() + self.outputs.len() as u32
    }

    pub(crate) fn remaining(&self) -> u32 {
        self.max_new_tokens - self.outputs.len() as u32
    }

    /// Positions whose keys and values are ever needed: the last token's are not.
    pub(crate) fn most_positions(&self) -> u32 {
        self.prompt_len() + self.max_new_tokens.saturating_sub(1)
    }

    /// How many of the first tokens may come from the cache: the last one must be computed to be
    /// sampled from, and so must everything that is scored.
    pub(crate) fn cacheable(&self) -> u32 {
        let last = self.history.len() as u32 - 1;
        if self.scored < self.prompt_len() {
            last.min(self.scored - 1)
        } else {
            last
        }
    }

    /// The prompt tokens to score with the input tokens at `input`.
    pub(crate) fn scored_by(&self, input: &Range<u32>) -> Range<u32> {
        let start = self.scored.max(input.start + 1);
        let end = (input.end + 1).min(self.prompt_len());
        start..end.max(start)
    }

    /// Numbers of the scores of one prompt token.
    fn numbers(&self) -> u32 {
        let wanted = self.new.log_probs.as_ref();
        wanted.map_or(1, |wanted| wanted.numbers())
    }

    /// How many numbers a step must still be able to compute so that it takes at least one input token, whichever.
    pub(crate) fn numbers_to_begin(&self) -> u32 {
        if self.scored < self.prompt_len() {
            self.numbers()
        } else {
            0
        }
    }

    /// Numbers of all scores with the input tokens at `input`.
    pub(crate) fn numbers_of(&self, input: &Range<u32>) -> u32 {
        let scored = self.scored_by(input).len() as u32;
        scored.saturating_mul(self.numbers())
    }

    /// As much of `input` as needs no more than `numbers` numbers for its scores.
    pub(crate) fn within_numbers(&self, input: Range<u32>, numbers: u32) -> Range<u32> {
        let scored = self.scored_by(&input);
        let most = numbers / self.numbers();
        if scored.len() as u32 <= most {
            return input;
        }
        // a token is scored with the input token before it
        input.start..scored.start + most - 1
    }

    /// A copy of the tokens at `range` of prompt and outputs.
    pub(crate) fn tokens(&self, range: Range<usize>) -> Vec<Token> {
        let prompt = &self.new.prompt;
        let (start, end) = (range.start.min(prompt.len()), range.end.min(prompt.len()));
        let mut tokens = prompt[start..end].to_vec();
        let outputs = range.start.max(prompt.len())..range.end.max(prompt.len());
        tokens.extend_from_slice(
            &self.outputs[outputs.start - prompt.len()..outputs.end - prompt.len()],
        );
        tokens
    }

    /// Makes the outputs part of what is prefilled next time.
    pub(crate) fn keep_outputs(&mut self) {
        self.history = self.tokens(0..self.len() as usize).into();
    }

    /// What there is to tell, without anything new.
    pub(crate) fn progress(&self, finish: Option<FinishReason>) -> Progress {
        Progress {
            sequence: self.id,
            tokens: Vec::new(),
            log_probs: Vec::new(),
            prompt_log_probs: Vec::new(),
            output_tokens: self.outputs.len() as u32,
            cached_tokens: self.cached_tokens,
            retractions: self.retractions,
            first_planned: self.first_planned,
            first_token: self.first_token,
            finish,
        }
    }
}
