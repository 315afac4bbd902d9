use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{Metadata, Usage};
use crate::native::Matched;

/// The answer of `/v1/chat/completions`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChatResponse {
    /// The name of the request.
    pub id: String,
    /// Always `chat.completion`.
    pub object: Cow<'static, str>,
    /// Seconds since 1970.
    pub created: u64,
    /// The model's name, as the request had it.
    pub model: String,
    /// The outputs.
    pub choices: Vec<ChatChoice>,
    /// Token counts.
    pub usage: Usage,
    /// Facts about the server.
    #[serde(default)]
    pub metadata: Option<Metadata>,
}

/// One output.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChatChoice {
    /// Which.
    pub index: usize,
    /// What the model says.
    pub message: ChatMessage,
    /// When asked for.
    pub logprobs: Option<ChatLogProbs>,
    /// `stop`, `length`, `tool_calls`, `content_filter` or `abort`.
    pub finish_reason: Option<Cow<'static, str>>,
    /// The end token or stop string that was met.
    pub matched_stop: Option<Matched>,
}

/// What the model says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChatMessage {
    /// `assistant`
    pub role: Cow<'static, str>,
    /// To the user.
    pub content: Option<String>,
    /// To itself.
    pub reasoning_content: Option<String>,
    /// To functions.
    pub tool_calls: Option<Vec<ToolCall>>,
}

/// A function to be called.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolCall {
    /// The name of the call; null in later pieces of it.
    pub id: Option<String>,
    /// Which call of the message.
    pub index: Option<usize>,
    /// `function`
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    /// What to call.
    pub function: FunctionCall,
}

/// What to call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FunctionCall {
    /// The function; null in later pieces of a call.
    pub name: Option<String>,
    /// JSON, or the next piece of it.
    pub arguments: Option<String>,
}

/// One event of a stream of a chat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChatChunk<'a> {
    /// The name of the request.
    #[serde(default)]
    pub id: Cow<'a, str>,
    /// Always `chat.completion.chunk`.
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
    pub choices: Vec<ChatChunkChoice>,
    /// Token counts, when asked for.
    #[serde(default)]
    pub usage: Option<Usage>,
}

/// The next piece of an output.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChatChunkChoice {
    /// Which.
    pub index: usize,
    /// What is added to the message.
    pub delta: Delta,
    /// When asked for.
    pub logprobs: Option<ChatLogProbs>,
    /// Null until the end.
    pub finish_reason: Option<Cow<'static, str>>,
    /// The end token or stop string that was met.
    pub matched_stop: Option<Matched>,
}

/// What is added to a message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Delta {
    /// In the first piece.
    pub role: Option<Cow<'static, str>>,
    /// To the user.
    pub content: Option<String>,
    /// To itself.
    pub reasoning_content: Option<String>,
    /// To functions.
    pub tool_calls: Option<Vec<ToolCall>>,
}

/// Log-probabilities of a message or a piece of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChatLogProbs {
    /// One entry per token.
    pub content: Vec<ChatTokenLogProb>,
}

/// The log-probability of a token of a message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChatTokenLogProb {
    /// Its text.
    pub token: String,
    /// Its bytes, which need not be text.
    pub bytes: Vec<u8>,
    /// Its log-probability.
    pub logprob: f32,
    /// The likeliest tokens there.
    pub top_logprobs: Vec<TopLogProb>,
}

/// One of the likeliest tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TopLogProb {
    /// Its text.
    pub token: String,
    /// Its bytes, which need not be text.
    pub bytes: Vec<u8>,
    /// Its log-probability.
    pub logprob: f32,
}
