use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{MetaInfo, SamplingParams};
use crate::json::{OneOrMany, record};

record! {
    /// The body of `/generate`: scalars for one request, lists for a batch.
    pub struct GenerateRequest {
        /// The prompt as text.
        text: OneOrMany<String>,
        /// The prompt as tokens.
        input_ids: OneOrMany<Vec<i64>>,
        /// The prompt as embeddings.
        input_embeds: Value,
        /// Images.
        image_data: Value,
        /// Videos.
        video_data: Value,
        /// Sounds.
        audio_data: Value,
        /// How to sample.
        sampling_params: OneOrMany<SamplingParams>,
        /// Names of the requests; made up when absent.
        rid: OneOrMany<String>,
        /// Whether log-probabilities are returned.
        return_logprob: OneOrMany<bool>,
        /// From which prompt position on; −1 means outputs only.
        logprob_start_len: OneOrMany<i64>,
        /// How many likeliest tokens per position.
        top_logprobs_num: OneOrMany<i64>,
        /// Tokens whose log-probability is returned at every position.
        token_ids_logprob: OneOrMany<Vec<i64>>,
        /// Whether log-probabilities come with the tokens' text.
        return_text_in_logprobs: bool,
        /// Whether the answer is a stream of events.
        stream: bool,
        /// Whether the request counts in the metrics.
        log_metrics: bool,
        /// Whether hidden states are returned.
        return_hidden_states: Value,
        /// Whether the experts of every token are returned.
        return_routed_experts: bool,
        /// Whether the prompt's tokens are returned.
        return_prompt_token_ids: bool,
        /// The session to continue.
        session_params: Value,
        /// The adapter to apply.
        lora_path: OneOrMany<Option<String>>,
        /// A program that changes logits.
        custom_logit_processor: Value,
        /// How important it is under the priority policy.
        priority: i64,
        /// Prefixes are shared among requests with the same key only.
        extra_key: OneOrMany<Option<String>>,
        /// The same, in the name of privacy.
        cache_salt: OneOrMany<Option<String>>,
        /// Whether the request is left out of the log.
        no_logs: bool,
        /// Where the prompt was computed, on servers apart for prompts. No effect.
        bootstrap_host: Value,
        /// The same. No effect.
        bootstrap_port: Value,
        /// The same. No effect.
        bootstrap_room: Value,
        /// Which replica. No effect: there is one.
        data_parallel_rank: Value,
        /// The conversation that it belongs to. No effect: prefixes are found by themselves.
        conversation_id: Value,
        /// Labels for metrics. No effect.
        custom_labels: Value,
        /// What kinds of media there are. No effect: media are refused.
        modalities: Value,
    }
}

/// The answer of `/generate` for one sequence, and the data of each event of its stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GenerateResponse {
    /// The whole output so far; absent when the server has no tokenizer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The tokens of the output so far.
    pub output_ids: Vec<u32>,
    /// Everything else.
    pub meta_info: MetaInfo,
    /// Which sequence of a batch, in streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// The tokens of the prompt, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<u32>>,
}

/// The body of an error of the native API, and the data of an error event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What went wrong.
    pub error: ErrorMessage,
}

/// What went wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorMessage {
    /// In words.
    pub message: String,
}

impl ErrorBody {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            error: ErrorMessage {
                message: message.into(),
            },
        }
    }
}
