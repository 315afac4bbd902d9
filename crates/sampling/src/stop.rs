//! When an output is complete.

use crate::{SamplingParams, Token};

/// Why a sequence ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// An end was reached.
    Stop {
        /// The end token; `None` when the end was seen outside the tokens: a stop string or a
        /// complete grammar.
        token: Option<Token>,
    },
    /// The output has as many tokens as allowed.
    Length,
    /// The sequence was ended before it was complete.
    Abort(Abort),
}

/// Who ended a sequence before it was complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Abort {
    /// The client asked for it or went away.
    Cancelled,
    /// The server could not go on, and why.
    Failed(String),
    /// It waited, and its place went to a more important one.
    Displaced,
    /// It came to a full queue in which nobody is less important.
    QueueFull,
}

/// The tokens and lengths that end one sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopRules {
    /// Sorted, without repetitions.
    tokens: Vec<Token>,
    min_new_tokens: u32,
    max_new_tokens: Option<u32>,
}

impl StopRules {
    /// The rules of a request for a model whose own end tokens are `end_tokens`.
    pub fn new(params: &SamplingParams, end_tokens: &[Token]) -> Self {
        let mut tokens = Vec::new();
        if !params.ignore_eos {
            tokens.extend_from_slice(end_tokens);
            tokens.extend_from_slice(&params.stop_token_ids);
            tokens.sort_unstable();
            tokens.dedup();
        }
        Self {
            tokens,
            min_new_tokens: params.min_new_tokens,
            max_new_tokens: params.max_new_tokens,
        }
    }

    /// Most tokens to generate; `None` means until the context ends.
    pub fn max_new_tokens(&self) -> Option<u32> {
        self.max_new_tokens
    }

    /// The tokens that may not be sampled as output token number `index`, counted from 0.
    pub fn suppressed_at(&self, index: u32) -> &[Token] {
        if index < self.min_new_tokens {
            &self.tokens
        } else {
            &[]
        }
    }

    /// Whether `token`, the output's token number `index`, ends it when `max_new_tokens` are
    /// allowed. An output that ends with the last token allowed is complete: SGLang 0.5.23 says so,
    /// 0.5.6 called it cut short.
    pub fn check(&self, index: u32, token: Token, max_new_tokens: u32) -> Option<FinishReason> {
        if index >= self.min_new_tokens && self.tokens.binary_search(&token).is_ok() {
            return Some(FinishReason::Stop { token: Some(token) });
        }
        (index + 1 >= max_new_tokens).then_some(FinishReason::Length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SamplingOptions;

    fn rules(change: impl FnOnce(&mut SamplingOptions)) -> StopRules {
        let mut options = SamplingOptions {
            stop_token_ids: vec![7],
            ..SamplingOptions::default()
        };
        change(&mut options);
        StopRules::new(&SamplingParams::new(&options, 100).unwrap(), &[2, 3])
    }

    const STOP_2: Option<FinishReason> = Some(FinishReason::Stop { token: Some(2) });

    #[test]
    fn end_tokens_and_stop_tokens_end_the_output() {
        let rules = rules(|_| ());
        assert_eq!(rules.check(0, 2, 10), STOP_2);
        assert_eq!(
            rules.check(0, 7, 10),
            Some(FinishReason::Stop { token: Some(7) })
        );
        assert_eq!(rules.check(0, 4, 10), None);
    }

    #[test]
    fn an_end_token_ends_the_output_on_the_last_token_allowed_too() {
        let rules = rules(|_| ());
        assert_eq!(rules.check(9, 2, 10), STOP_2);
        assert_eq!(rules.check(8, 4, 10), None);
        assert_eq!(rules.check(9, 4, 10), Some(FinishReason::Length));
    }

    #[test]
    fn ignoring_the_end_ignores_stop_tokens_too() {
        let rules = rules(|options| options.ignore_eos = true);
        assert_eq!(rules.check(0, 2, 10), None);
        assert_eq!(rules.check(0, 7, 10), None);
    }

    #[test]
    fn end_tokens_are_suppressed_until_the_minimum_is_there() {
        let rules = rules(|options| options.min_new_tokens = 2);
        assert_eq!(rules.suppressed_at(0), [2, 3, 7]);
        assert_eq!(rules.suppressed_at(1), [2, 3, 7]);
        assert!(rules.suppressed_at(2).is_empty());
        assert_eq!(rules.check(1, 2, 10), None);
        assert_eq!(rules.check(2, 2, 10), STOP_2);
    }
}
