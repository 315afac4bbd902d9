use protocol::openai::Usage;

use crate::sequence::Counts;

/// Token counts of the sequences of a request, kept up to date.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    counts: Vec<Counts>,
    /// Tokens of each that came before its answer.
    thoughts: Vec<usize>,
    /// Sequences per prompt: a prompt counts once.
    choices: usize,
    cache_report: bool,
}

impl Ledger {
    pub(super) fn new(sequences: usize, choices: usize, cache_report: bool) -> Self {
        Self {
            counts: vec![Counts::default(); sequences],
            thoughts: vec![0; sequences],
            choices: choices.max(1),
            cache_report,
        }
    }

    pub(super) fn set(&mut self, index: usize, counts: Counts) {
        self.counts[index] = counts;
    }

    pub(super) fn set_thoughts(&mut self, index: usize, tokens: usize) {
        self.thoughts[index] = tokens;
    }

    /// Of one sequence.
    pub(super) fn of(&self, index: usize) -> Usage {
        let counts = self.counts[index];
        Usage {
            reasoning_tokens: self.thoughts[index],
            ..Usage::new(counts.prompt_tokens, counts.completion_tokens, None)
        }
    }

    /// Of all.
    pub(super) fn total(&self) -> Usage {
        let prompts = self.counts.iter().step_by(self.choices);
        let prompt_tokens = prompts.clone().map(|counts| counts.prompt_tokens).sum();
        let cached_tokens = prompts.map(|counts| counts.cached_tokens).sum();
        let completion_tokens = self
            .counts
            .iter()
            .map(|counts| counts.completion_tokens)
            .sum();
        let cached_tokens = self.cache_report.then_some(cached_tokens);
        Usage {
            reasoning_tokens: self.thoughts.iter().sum(),
            ..Usage::new(prompt_tokens, completion_tokens, cached_tokens)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_counts_once_and_every_output_counts() {
        let mut ledger = Ledger::new(4, 2, true);
        for (index, (prompt_tokens, completion_tokens)) in
            [(5, 1), (5, 2), (7, 3), (7, 4)].into_iter().enumerate()
        {
            let cached_tokens = prompt_tokens - 5;
            let counts = Counts {
                prompt_tokens,
                completion_tokens,
                cached_tokens,
                ..Counts::default()
            };
            ledger.set(index, counts);
        }
        assert_eq!(ledger.total(), Usage::new(12, 10, Some(2)));
        assert_eq!(ledger.of(3), Usage::new(7, 4, None));
        ledger.set_thoughts(2, 1);
        ledger.set_thoughts(3, 2);
        assert_eq!(ledger.of(3).reasoning_tokens, 2);
        assert_eq!(ledger.total().reasoning_tokens, 3);
    }
}
