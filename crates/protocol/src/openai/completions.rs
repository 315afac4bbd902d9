use super::{Controls, Prompt};
use crate::json::{OneOrMany, record};

record! {
    /// The body of `/v1/completions`.
    pub struct CompletionRequest {
        /// What to continue.
        @required prompt: OneOrMany<Prompt>,
        /// Most tokens to generate.
        max_tokens: i64,
        /// How many likeliest tokens per position; absent for no log-probabilities at all.
        logprobs: i64,
        /// Whether the prompt is part of the answer.
        echo: bool,
        /// No effect, as in SGLang.
        best_of: i64,
        /// The text after the gap to fill.
        suffix: String,
        .. /// What chats have too.
        controls: Controls,
    }
}
