//! What is worth a log line. The scheduler writes none itself.

/// Something that happened while planning, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A step with prompt tokens was planned.
    Prefill(PrefillEvent),
    /// A step that generates was planned.
    Decode(DecodeEvent),
    /// Sequences went back to the queue because KV memory was short.
    Retract(RetractEvent),
    /// Sequences went back to the queue for a more important one.
    Outrank(OutrankEvent),
}

/// A step's prompt tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct PrefillEvent {
    /// Sequences that left the queue with this step.
    pub new_sequences: u32,
    /// Prompt tokens computed in this step.
    pub new_tokens: u32,
    /// Prompt tokens of the new sequences found cached.
    pub cached_tokens: u32,
    /// The share of KV memory in use, 0 to 1.
    pub token_usage: f64,
    /// Sequences that ran before this step.
    pub running: u32,
    /// Sequences still waiting.
    pub waiting: usize,
}

/// A step's generating rows.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodeEvent {
    /// Rows that generate in this step.
    pub rows: u32,
    /// Sequences that run.
    pub running: u32,
    /// Tokens of KV memory in use.
    pub used_tokens: u64,
    /// The share of KV memory in use, 0 to 1.
    pub token_usage: f64,
    /// Sequences waiting.
    pub waiting: usize,
}

/// Sequences taken back to the queue.
#[derive(Clone, Debug, PartialEq)]
pub struct RetractEvent {
    /// How many.
    pub sequences: u32,
    /// The admission reserve before, as a share of the remaining output.
    pub ratio_before: f64,
    /// And after.
    pub ratio_after: f64,
}

/// Sequences that gave way.
#[derive(Clone, Debug, PartialEq)]
pub struct OutrankEvent {
    /// How many.
    pub sequences: u32,
}
