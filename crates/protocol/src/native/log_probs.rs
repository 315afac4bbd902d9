use serde::{Deserialize, Serialize};

/// A token's log-probability: `[log-probability, token, text]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogProb(
    /// Null where there is none: the first token of a prompt.
    pub Option<f32>,
    /// The token.
    pub u32,
    /// Its text, when asked for.
    pub Option<String>,
);

/// Log-probabilities of a run of positions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogProbs {
    /// Of the tokens themselves.
    pub tokens: Vec<LogProb>,
    /// Of the likeliest tokens, when asked for; null where nothing is known.
    pub top: Option<Vec<Option<Vec<LogProb>>>>,
    /// Of the tokens that were asked for; null where nothing is known.
    pub chosen: Option<Vec<Option<Vec<LogProb>>>>,
}
