//! What is asked of the scheduler and why it may refuse.

use std::sync::Arc;

use kv::{Namespace, Token};
use sampling::{LogProbRequest, SamplingParams, StopRules};
use thiserror::Error;

/// The number of a sequence in the order of admission; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceId(pub u64);

/// A token history to be extended. A request with several choices has one sequence for each; the
/// prefix cache lets them share the prompt.
#[derive(Clone, Debug)]
pub struct NewSequence {
    /// The tokens to continue; at least one.
    pub prompt: Arc<[Token]>,
    /// How to sample.
    pub params: Arc<SamplingParams>,
    /// When to stop. Without a length the sequence may fill the context.
    pub stop: Arc<StopRules>,
    /// The seed of the request's random numbers.
    pub seed: u64,
    /// Which of the request's choices this is.
    pub choice: u32,
    /// Log-probabilities wanted.
    pub log_probs: Option<Arc<LogProbRequest>>,
    /// Which tokens may be sampled.
    pub constraint: Constraint,
    /// Whose cached prefixes may be used.
    pub namespace: Namespace,
    /// How important it is under [`crate::Order::Priority`].
    pub priority: Option<i32>,
}

/// Whether a sequence's tokens are restricted from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Constraint {
    /// Any token may follow.
    #[default]
    None,
    /// A grammar's mask is sent with each sampling step.
    Grammar,
}

/// Why a sequence was not admitted. Waiting would not help, except for a full queue.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Rejected {
    /// There is nothing to continue.
    #[error("the prompt has no tokens, the least is 1")]
    EmptyPrompt,
    /// The prompt alone does not fit.
    #[error("the prompt has {prompt} tokens, the limit is {limit}")]
    PromptTooLong {
        /// Tokens of the prompt.
        prompt: u64,
        /// Tokens one sequence may have.
        limit: u32,
    },
    /// The prompt fits, but not with the output asked for.
    #[error(
        "the prompt of {prompt} tokens and up to {max_new_tokens} new ones make {}, the limit is {limit}",
        prompt + max_new_tokens
    )]
    TooManyTokens {
        /// Tokens of the prompt.
        prompt: u64,
        /// New tokens asked for.
        max_new_tokens: u64,
        /// Tokens one sequence may have.
        limit: u32,
    },
    /// No step has room for the scores of even one of its prompt tokens.
    #[error("the scores of a prompt token are {numbers} numbers, the limit is {limit}")]
    TooManyScores {
        /// Numbers for one token.
        numbers: u32,
        /// Numbers a step may compute.
        limit: u32,
    },
}
