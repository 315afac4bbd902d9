//! The scheduler's settings, resolved.

use std::str::FromStr;

use kv::PageSize;

/// What the scheduler may use and which policies it follows.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulerConfig {
    /// Pages of KV memory that may be handed out; page 0 is not one of them.
    pub pages: u32,
    /// Positions per page.
    pub page_size: PageSize,
    /// Sequences that may run at once; rows `1..=max_rows` are handed out.
    pub max_rows: u32,
    /// Tokens the model can attend to.
    pub context_length: u32,
    /// Most prompt tokens of one step; a longer prompt is split. `u32::MAX` splits none
    /// but for `max_step_scores`.
    pub chunk: u32,
    /// Prompt tokens after which no further prompt joins a step.
    pub max_prefill_tokens: u32,
    /// Numbers that one step may compute as scores of prompt tokens: each token takes
    /// [`LogProbRequest::numbers`](sampling::LogProbRequest::numbers). Prompts are split to keep to it, whatever `chunk` says.
    pub max_step_scores: u32,
    /// Steps that may be in flight.
    pub run_ahead: u32,
    /// Multiplies the share of a sequence's remaining output that admission reserves.
    pub conservativeness: f64,
    /// Which sequence leaves the queue first.
    pub order: Order,
    /// Whether prompts and generation share a step.
    pub mix: Mix,
    /// Whether prefixes are kept for later sequences.
    pub reuse: Reuse,
}

impl SchedulerConfig {
    /// Tokens one sequence may have, prompt and output together: one less than the context and
    /// the KV memory, as SGLang counts.
    pub fn max_sequence_tokens(&self) -> u32 {
        let pool = u64::from(self.pages) * u64::from(self.page_size.tokens());
        let pool = u32::try_from(pool).unwrap_or(u32::MAX);
        self.context_length.min(pool).saturating_sub(1)
    }

    /// Tokens of the largest step that can be planned: what a rank must have scratch for.
    pub fn max_step_tokens(&self) -> u32 {
        if self.chunk == u32::MAX {
            let longest = self.max_sequence_tokens().max(self.max_prefill_tokens);
            return longest.saturating_add(self.max_rows);
        }
        self.prompt_tokens_beside(0)
            .max(self.max_rows + self.prompt_tokens_beside(self.max_rows))
    }

    /// Prompt tokens that may share a step with `others` rows that generate. A quarter of the
    /// chunk is always left, so that generation cannot keep prompts out.
    pub(crate) fn prompt_tokens_beside(&self, others: u32) -> u32 {
        let most = self.chunk.min(self.max_prefill_tokens).max(1);
        most.saturating_sub(others).max(most.div_ceil(4))
    }
}

/// Which waiting sequence goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Whoever came first.
    #[default]
    Arrival,
    /// Whoever has most of the prompt cached.
    LongestPrefix,
    /// Whoever may generate most.
    LongestOutput,
    /// Whoever is most important, then whoever came first.
    Priority(PriorityRules),
}

/// What priorities mean. A sequence without one is less important than any other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PriorityRules {
    /// Smaller numbers are more important, not larger ones.
    pub low_values_first: bool,
    /// A running sequence gives way to a waiting one whose priority is better by more than this; `None` lets it run.
    pub preemption_threshold: Option<u32>,
    /// When KV memory is short, the least important sequence is retracted first.
    pub retract_least_important: bool,
}

impl PriorityRules {
    /// Larger is more important.
    pub(crate) fn importance(self, priority: Option<i32>) -> i64 {
        let sign = if self.low_values_first { -1 } else { 1 };
        // further from every number than any threshold
        priority.map_or(-(1 << 40), |priority| sign * i64::from(priority))
    }
}

impl Order {
    /// The rules of priorities, where they count.
    pub fn priorities(self) -> Option<PriorityRules> {
        match self {
            Self::Priority(rules) => Some(rules),
            Self::Arrival | Self::LongestPrefix | Self::LongestOutput => None,
        }
    }
}

/// Whether steps mix prompts and generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mix {
    /// A step generates for every running row and fills up with prompt tokens.
    #[default]
    Mixed,
    /// A step that has prompt tokens generates nothing; prompts go first.
    PrefillFirst,
}

/// Whether prefixes stay cached after their sequence is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reuse {
    /// They stay until their pages are needed.
    #[default]
    Prefixes,
    /// Pages are free as soon as their sequence is gone.
    Off,
}

/// The name is none of `fcfs`, `lpm`, `lof`, `priority`.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("schedule policy {0:?} is none of fcfs, lpm, lof, priority")]
pub struct UnknownOrder(pub String);

impl FromStr for Order {
    type Err = UnknownOrder;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "fcfs" => Ok(Self::Arrival),
            "lpm" => Ok(Self::LongestPrefix),
            "lof" => Ok(Self::LongestOutput),
            "priority" => Ok(Self::Priority(PriorityRules::default())),
            _ => Err(UnknownOrder(name.to_owned())),
        }
    }
}
