use serde_json::Value;

use crate::json::{OneOrMany, record};
use crate::native::TokenLimit;
use crate::openai::LogitBias;

record! {
    take_exactly:
    /// How to sample, as the native API spells it.
    pub struct SamplingParams {
        /// Most tokens to generate: 128 when absent, as many as the context has room for when null.
        max_new_tokens: TokenLimit,
        /// Fewest tokens to generate.
        min_new_tokens: i64,
        /// Strings that end the output.
        stop: OneOrMany<String>,
        /// Tokens that end the output.
        stop_token_ids: Vec<i64>,
        /// Patterns that end the output.
        stop_regex: OneOrMany<String>,
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
        /// How many outputs.
        n: i64,
        /// Whether end tokens are ignored.
        ignore_eos: bool,
        /// Whether special tokens are left out of the text.
        skip_special_tokens: bool,
        /// Whether special tokens are set apart by spaces. No effect, as with tokenizer.json elsewhere.
        spaces_between_special_tokens: bool,
        /// Whether the stop string stays in the text.
        no_stop_trim: bool,
        /// Added to the logits of tokens, by id.
        logit_bias: LogitBias,
        /// Fixes the random numbers.
        sampling_seed: u64,
        /// Tokens per event of a stream.
        stream_interval: i64,
        /// The output must be JSON of this schema.
        json_schema: Value,
        /// The output must match this pattern.
        regex: String,
        /// The output must follow this grammar.
        ebnf: String,
        /// Parts of the output are constrained.
        structural_tag: Value,
        /// For custom logit processors, which are refused. No effect.
        custom_params: Value,
    }
}
