use serde_json::Value;

use super::LogitBias;
use crate::json::{OneOrMany, record};

record! {
    /// What completions and chats have in common.
    pub struct Controls {
        /// Which model; echoed.
        model: String,
        /// Whether the answer is a stream of events.
        stream: bool,
        /// What the stream contains besides text.
        stream_options: StreamOptions,
        /// How many outputs.
        n: i64,
        /// Strings that end the output.
        stop: OneOrMany<String>,
        /// Tokens that end the output.
        stop_token_ids: Vec<i64>,
        /// Patterns that end the output.
        stop_regex: OneOrMany<String>,
        /// Whether the stop string stays in the text.
        no_stop_trim: bool,
        /// Fewest tokens to generate.
        min_tokens: i64,
        /// Whether end tokens are ignored.
        ignore_eos: bool,
        /// Whether special tokens are left out of the text.
        skip_special_tokens: bool,
        /// Divides the logits; 0 means greedy.
        temperature: f64,
        /// Keeps the smallest set of tokens with this total probability.
        top_p: f64,
        /// Keeps this many tokens; −1 keeps all.
        top_k: i64,
        /// Keeps tokens at least this likely relative to the likeliest.
        min_p: f64,
        /// Against repeating, by count.
        frequency_penalty: f64,
        /// Against repeating, once.
        presence_penalty: f64,
        /// Against repeating, by a factor.
        repetition_penalty: f64,
        /// Added to the logits of tokens.
        logit_bias: LogitBias,
        /// Fixes the random numbers.
        seed: u64,
        /// The form of the output.
        response_format: Value,
        /// The output must be JSON of this schema.
        json_schema: Value,
        /// The output must match this pattern.
        regex: String,
        /// The output must follow this grammar.
        ebnf: String,
        /// The adapter to apply.
        lora_path: OneOrMany<Option<String>>,
        /// The session to continue.
        session_params: Value,
        /// For custom logit processors, which are refused. No effect.
        custom_params: Value,
        /// A program that changes logits.
        custom_logit_processor: Value,
        /// Whether hidden states are returned.
        return_hidden_states: Value,
        /// Names of the requests; made up when absent.
        rid: OneOrMany<String>,
        /// Prefixes are shared among requests with the same key only.
        extra_key: OneOrMany<Option<String>>,
        /// The same, in the name of privacy.
        cache_salt: OneOrMany<Option<String>>,
        /// How important it is under the priority policy.
        priority: i64,
        /// Who asks. No effect.
        user: Value,
        /// The same, for abuse detection. No effect.
        safety_identifier: Value,
        /// The client's own notes. No effect.
        metadata: Value,
        /// Whether the answer is kept for later. No effect: nothing is kept.
        store: Value,
        /// How fast the answer should come. No effect.
        service_tier: Value,
        /// Requests that begin alike. No effect: prefixes are found by themselves.
        prompt_cache_key: Value,
    }
}

record! {
    /// What a stream contains besides text.
    pub struct StreamOptions {
        /// A last chunk with the token counts.
        include_usage: bool,
        /// Token counts in every chunk.
        continuous_usage_stats: bool,
    }
}
