use std::borrow::Cow;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::{Metadata, Usage};
use crate::native::Matched;

/// The answer of `/v1/completions`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompletionResponse {
    /// The name of the request.
    pub id: String,
    /// Always `text_completion`.
    pub object: Cow<'static, str>,
    /// Seconds since 1970.
    pub created: u64,
    /// The model's name, as the request had it.
    pub model: String,
    /// The outputs: those of the first prompt, of the second, and so on.
    pub choices: Vec<CompletionChoice>,
    /// Token counts.
    pub usage: Usage,
    /// Facts about the server.
    #[serde(default)]
    pub metadata: Option<Metadata>,
}

/// One output, or the next piece of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CompletionChoice {
    /// Which.
    pub index: usize,
    /// The text.
    pub text: String,
    /// When asked for.
    pub logprobs: Option<CompletionLogProbs>,
    /// `stop`, `length`, `content_filter` or `abort`; null until the end.
    pub finish_reason: Option<Cow<'static, str>>,
    /// The end token or stop string that was met.
    pub matched_stop: Option<Matched>,
}

/// One event of a stream of completions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompletionChunk<'a> {
    /// The name of the request.
    #[serde(default)]
    pub id: Cow<'a, str>,
    /// Always `text_completion`.
    #[serde(default)]
    pub object: Cow<'static, str>,
    /// Seconds since 1970.
    #[serde(default)]
    pub created: u64,
    /// The model's name, as the request had it.
    #[serde(default)]
    pub model: Cow<'a, str>,
    /// Pieces of outputs; none in the chunk that has the counts.
    #[serde(default)]
    pub choices: Vec<CompletionChoice>,
    /// Token counts, when asked for.
    #[serde(default)]
    pub usage: Option<Usage>,
}

/// Log-probabilities of a completion: lists of equal length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CompletionLogProbs {
    /// Where in the text each token begins, in characters.
    pub text_offset: Vec<i64>,
    /// Each token's log-probability.
    pub token_logprobs: Vec<Option<f32>>,
    /// Each token's text.
    pub tokens: Vec<String>,
    /// The likeliest tokens at each position.
    pub top_logprobs: Vec<Option<TopLogProbs>>,
}

/// Likeliest tokens by text, likeliest first.
///
/// Tokens of equal text (pieces of one character) count once, the likeliest of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopLogProbs(Vec<(String, f32)>);

impl TopLogProbs {
    /// The tokens, likeliest first.
    pub fn new(tokens: impl IntoIterator<Item = (String, f32)>) -> Self {
        let mut kept: Vec<(String, f32)> = Vec::new();
        for (text, log_prob) in tokens {
            if kept.iter().all(|(other, _)| *other != text) {
                kept.push((text, log_prob));
            }
        }
        Self(kept)
    }
}

impl Serialize for TopLogProbs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (text, log_prob) in &self.0 {
            map.serialize_entry(text, log_prob)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for TopLogProbs {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = serde_json::Map::deserialize(deserializer)?;
        let read = |(text, value): (String, serde_json::Value)| {
            (text, value.as_f64().unwrap_or(f64::NEG_INFINITY) as f32)
        };
        Ok(Self(map.into_iter().map(read).collect()))
    }
}
