//! A step as plain values: what it will do and what it produced.
//!
//! A rank runs a plan in this order: close rows, open rows, copy pages, write the new pages into
//! the page tables, forward, sample. Plans run in the order of their [`StepId`].

use std::{ops::Range, sync::Arc};

use kv::{Page, Token};
use sampling::{LogProbRequest, SamplingParams, StopRules, TokenLogProbs};

use crate::SequenceId;

/// The number of a step; consecutive, and never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId(pub u64);

/// A sequence's permanent place in the device tables while it runs.
///
/// Rows handed out are `1..=max_rows`; row 0 pads batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row(pub u32);

impl Row {
    /// The row that only pads a batch; it is never handed out.
    pub const DUMMY: Self = Self(0);

    /// The row's number as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What the next step does. Complete: a rank needs nothing else to run it.
#[derive(Clone, Debug, PartialEq)]
pub struct StepPlan {
    /// The step's number; its outcome carries the same.
    pub id: StepId,
    /// Rows whose sequence is gone. One of them may be opened again in this very plan.
    pub closes: Vec<Row>,
    /// Rows that get a new sequence.
    pub opens: Vec<RowOpen>,
    /// Pages to copy before the forward.
    pub copies: Vec<PageCopy>,
    /// The rows that take part, each once. Never empty.
    pub rows: Vec<RowPlan>,
}

impl StepPlan {
    /// Input tokens of all rows.
    pub fn tokens(&self) -> u32 {
        self.rows.iter().map(RowPlan::tokens).sum()
    }
}

/// What a rank keeps for a row from its opening until it is closed.
#[derive(Clone, Debug, PartialEq)]
pub struct RowOpen {
    /// The row.
    pub row: Row,
    /// Whose it is now.
    pub sequence: SequenceId,
    /// All tokens known at the opening: the prompt, then what was generated before a retraction.
    pub history: Arc<[Token]>,
    /// How many of `history` are the prompt. The token sampled at position `p` is output token
    /// number `p - prompt_len`.
    pub prompt_len: u32,
    /// How to sample.
    pub params: Arc<SamplingParams>,
    /// The tokens suppressed at the start of the output.
    pub stop: Arc<StopRules>,
    /// Random numbers are keyed by the seed, the choice and the position of the drawn token.
    pub seed: u64,
    /// Which of a request's choices this is.
    pub choice: u32,
    /// Log-probabilities to return with sampled tokens, and which for the prompt.
    pub log_probs: Option<Arc<LogProbRequest>>,
}

/// One row's part of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct RowPlan {
    /// The row.
    pub row: Row,
    /// The position of the first input token.
    pub start: u32,
    /// The input tokens. Their keys and values are stored at `start..start + tokens()`.
    pub input: RowInput,
    /// Pages to write into the row's page table first.
    pub pages: NewPages,
    /// Whether to sample from the last input token's logits.
    pub sample: Sample,
    /// Prompt tokens whose log-probability is wanted, a part of `start + 1..=start + tokens()`.
    /// Token `p` is scored from the logits at `p - 1`; its id is in the row's history.
    pub scored: Range<u32>,
}

impl RowPlan {
    /// How many input tokens the row has in this step.
    pub fn tokens(&self) -> u32 {
        match &self.input {
            RowInput::Prompt(_, range) => range.end - range.start,
            RowInput::LastSampled => 1,
        }
    }

    /// The length of the row's history that attention sees at its last input token.
    pub fn end(&self) -> u32 {
        self.start + self.tokens()
    }
}

/// Where a row's input tokens come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowInput {
    /// The tokens at this range of the row's history; the range begins at the row's `start`.
    Prompt(Arc<[Token]>, Range<u32>),
    /// The token the row sampled last, which may still be in flight: it is read on the device.
    LastSampled,
}

/// Pages of a row's table that change with this step: `pages` replace what stands from index
/// `at` on. Usually `at` is the table's end; it lies before it when pages were found cached
/// elsewhere meanwhile. Nothing changes when `pages` is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewPages {
    /// The first index of the row's page table that changes.
    pub at: u32,
    /// The pages from there to the table's end.
    pub pages: Vec<Page>,
}

/// Whether a row samples a token at the end of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// No: more of the prompt follows, or no output is wanted.
    No,
    /// Yes, from all tokens.
    Free,
    /// Yes, from the tokens of a mask that arrives before sampling.
    Masked,
}

/// All layers' keys and values of the first `tokens` positions of a page, copied to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageCopy {
    /// Read.
    pub from: Page,
    /// Written.
    pub to: Page,
    /// How many positions; the rest of `to` is written by the forward.
    pub tokens: u32,
}

/// What a step produced.
#[derive(Clone, Debug, PartialEq)]
pub struct StepOutcome {
    /// The plan's number.
    pub id: StepId,
    /// One outcome per row plan, in the plan's order.
    pub rows: Vec<RowOutcome>,
}

/// What a step produced for one row.
#[derive(Clone, Debug, PartialEq)]
pub struct RowOutcome {
    /// The row.
    pub row: Row,
    /// The sampled tokens in order: none with [`Sample::No`], else one.
    pub sampled: Vec<SampledToken>,
    /// One per token of [`RowPlan::scored`].
    pub prompt_log_probs: Vec<TokenLogProbs>,
}

/// A token a row sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct SampledToken {
    /// The token.
    pub token: Token,
    /// Its log-probabilities, when the row asked for them.
    pub log_probs: Option<TokenLogProbs>,
}
