use serde::{Deserialize, Serialize};

use super::{FinishReason, LogProb};

/// What the native API says about an output besides the output.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MetaInfo {
    /// The name of the request.
    pub id: String,
    /// Null while it runs.
    pub finish_reason: Option<FinishReason>,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Which weights answered.
    pub weight_version: String,
    /// How often the sequence was taken back to the queue.
    pub total_retractions: u32,
    /// Tokens of the output so far.
    pub completion_tokens: usize,
    /// Tokens of the prompt found in the cache.
    pub cached_tokens: usize,
    /// When things happened; the last event only.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub timing: Option<Timing>,
    /// Draft tokens accepted per step, by servers that speculate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec_accept_length: Option<f64>,
    /// Of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_token_logprobs: Option<Vec<LogProb>>,
    /// Of the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_token_logprobs: Option<Vec<LogProb>>,
    /// The likeliest tokens along the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_top_logprobs: Option<Vec<Option<Vec<LogProb>>>>,
    /// The likeliest tokens along the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_top_logprobs: Option<Vec<Option<Vec<LogProb>>>>,
    /// The tokens asked for, along the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_token_ids_logprobs: Option<Vec<Option<Vec<LogProb>>>>,
    /// The tokens asked for, along the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_token_ids_logprobs: Option<Vec<Option<Vec<LogProb>>>>,
}

/// When things happened to a request: seconds, and seconds since 1970 where the name ends in `ts`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// From the arrival of the request to its last token.
    pub e2e_latency: f64,
    /// When the last answer was made.
    pub response_sent_to_client_ts: f64,
    /// From the engine getting it to its first step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_time: Option<f64>,
    /// When the request arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_received_ts: Option<f64>,
    /// When the engine got it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_sent_to_scheduler_ts: Option<f64>,
    /// When the first token was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefill_finished_ts: Option<f64>,
    /// When the last token was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode_finished_ts: Option<f64>,
    /// From the engine getting it to the last token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inference_time: Option<f64>,
    /// Tokens a second after the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode_throughput: Option<f64>,
}
