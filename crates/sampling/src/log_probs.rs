//! Log-probabilities: what was asked and what is returned.

use crate::Token;

/// Which log-probabilities a request wants besides its tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogProbRequest {
    /// Prompt tokens after this position are scored; `None` scores outputs only.
    ///
    /// The token at the position itself has no log-probability: nothing before it is looked at.
    pub start: Option<u32>,
    /// How many of the likeliest tokens to return at each position.
    pub top: u32,
    /// Tokens whose log-probability is returned at each position.
    pub token_ids: Vec<Token>,
}

impl LogProbRequest {
    /// How many numbers are computed for each position: its own, one for each token asked for, and two for each of the
    /// likeliest.
    pub fn numbers(&self) -> u32 {
        let named = u32::try_from(self.token_ids.len()).unwrap_or(u32::MAX);
        let likeliest = self.top.saturating_mul(2);
        named.saturating_add(likeliest).saturating_add(1)
    }
}

/// The log-probabilities at one position.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogProbs {
    /// The token that stands or was sampled there.
    pub token: Token,
    /// Its log-probability.
    pub log_prob: f32,
    /// The likeliest tokens, likeliest first.
    pub top: Vec<(Token, f32)>,
    /// The tokens asked for by [`LogProbRequest::token_ids`], in that order.
    pub chosen: Vec<(Token, f32)>,
}
