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
