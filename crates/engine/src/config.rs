use std::time::Duration;

use scheduler::{SchedulerConfig, Token};

use crate::StepFloor;

/// What the engine thread needs to know.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// How steps are planned.
    pub scheduler: SchedulerConfig,
    /// Steps that may be in flight at once.
    pub run_ahead: usize,
    /// Tokens a sequence may have.
    pub context_length: usize,
    /// Size of the vocabulary: prompt tokens must be below it.
    pub vocabulary: usize,
    /// The model's own end tokens.
    pub end_tokens: Vec<Token>,
    /// Requests that may wait; more are refused before they reach the scheduler, which need not have a limit of its own.
    pub max_waiting: usize,
    /// What becomes of priorities before they reach the scheduler.
    pub priorities: Priorities,
    /// A `Decode batch` line is logged every this many generating steps.
    pub decode_log_interval: usize,
    /// Rows of the largest captured step; 0 when steps are not captured.
    pub largest_graph: usize,
    /// Seeds requests that bring no seed of their own.
    pub random_seed: u64,
    /// How long a step may take to come back before the device counts as lost; `None` waits for ever.
    pub watchdog: Option<Duration>,
    /// What steps are measured against, where that is known.
    pub floor: Option<StepFloor>,
}

/// Priorities that requests bring, or do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Priorities {
    /// The priority of a request that brings none.
    pub default: Option<i32>,
    /// Refuse requests that bring one.
    pub refuse: bool,
}
