//! What a commit tells about a sequence.

use std::time::Duration;

use kv::Token;
use sampling::{FinishReason, TokenLogProbs};

use crate::SequenceId;

/// What is new about a sequence. The one with a `finish` is its last.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Which sequence.
    pub sequence: SequenceId,
    /// Tokens generated since the last progress.
    pub tokens: Vec<Token>,
    /// Their log-probabilities, when asked for: as many as `tokens`, else none.
    pub log_probs: Vec<TokenLogProbs>,
    /// Log-probabilities of further prompt tokens, in order.
    pub prompt_log_probs: Vec<TokenLogProbs>,
    /// Tokens generated so far.
    pub output_tokens: u32,
    /// Prompt tokens that were found cached when the sequence first ran.
    pub cached_tokens: u32,
    /// How often the sequence was taken back to the queue.
    pub retractions: u32,
    /// When its first step was planned; `None` while it waits.
    pub first_planned: Option<Duration>,
    /// When its first token was committed; `None` before.
    pub first_token: Option<Duration>,
    /// Why it ended, if it did.
    pub finish: Option<FinishReason>,
}
