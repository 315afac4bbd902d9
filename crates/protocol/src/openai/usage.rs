use serde::{Deserialize, Serialize};

/// Token counts of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens of the prompts.
    pub prompt_tokens: usize,
    /// Both.
    pub total_tokens: usize,
    /// Tokens of the outputs.
    pub completion_tokens: usize,
    /// Where prompt tokens came from, when the server reports it.
    pub prompt_tokens_details: Option<PromptTokensDetails>,
    /// Tokens of thinking.
    pub reasoning_tokens: usize,
}

impl Usage {
    /// The counts of prompts and outputs; `cached` when it is reported and not zero.
    pub fn new(prompt_tokens: usize, completion_tokens: usize, cached: Option<usize>) -> Self {
        let details = cached.filter(|&cached_tokens| cached_tokens > 0);
        Self {
            prompt_tokens,
            total_tokens: prompt_tokens + completion_tokens,
            completion_tokens,
            prompt_tokens_details: details
                .map(|cached_tokens| PromptTokensDetails { cached_tokens }),
            reasoning_tokens: 0,
        }
    }
}

/// Where prompt tokens came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PromptTokensDetails {
    /// Found in the cache.
    pub cached_tokens: usize,
}

/// Facts about the server in an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// Which weights answered.
    pub weight_version: String,
}
