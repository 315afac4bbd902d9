//! What can be known about the scheduler from outside.

/// A snapshot: gauges of this moment, then counters since the start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedulerStats {
    /// Sequences that have a row.
    pub running: u32,
    /// Sequences in the queue.
    pub waiting: usize,
    /// Steps planned but not committed.
    pub in_flight: usize,
    /// Tokens of KV memory in use by running sequences; what could be evicted is not counted.
    pub used_tokens: u64,
    /// Tokens of KV memory in all.
    pub total_tokens: u64,
    /// Tokens of KV memory that only the cache holds.
    pub evictable_tokens: u64,
    /// Share of the remaining output that admission reserves now.
    pub new_token_ratio: f64,
    /// Steps planned.
    pub steps: u64,
    /// Sequences admitted to the queue.
    pub admitted: u64,
    /// Sequences that ended by their own rules.
    pub finished: u64,
    /// Sequences that were cancelled.
    pub cancelled: u64,
    /// Retractions.
    pub retracted: u64,
    /// Prompt tokens computed, tokens computed again after a retraction included.
    pub prompt_tokens: u64,
    /// Prompt tokens found cached.
    pub cached_tokens: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// Tokens generated past an end and dropped: the price of run-ahead.
    pub overshoot_tokens: u64,
    /// Tokens of cached prefixes given up for new ones.
    pub evicted_tokens: u64,
}

impl SchedulerStats {
    /// The share of KV memory in use, 0 to 1.
    pub fn token_usage(&self) -> f64 {
        self.used_tokens as f64 / self.total_tokens.max(1) as f64
    }

    /// The share of all prompt tokens that was found cached, 0 to 1.
    pub fn cache_hit_rate(&self) -> f64 {
        let all = self.cached_tokens + self.prompt_tokens;
        self.cached_tokens as f64 / all.max(1) as f64
    }
}

/// The cache was not flushed because sequences use it.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the cache cannot be flushed while {running} sequences run and {waiting} wait")]
pub struct Busy {
    /// Sequences that have a row.
    pub running: u32,
    /// Sequences in the queue.
    pub waiting: usize,
}
