use serde_json::{Map, Value};

use super::Controls;
use crate::json::record;

record! {
    /// The body of `/v1/chat/completions`.
    pub struct ChatRequest {
        /// The conversation; members are kept as they are, templates look at all of them.
        @required messages: Vec<Map<String, Value>>,
        /// Most tokens to generate.
        max_completion_tokens: i64,
        /// The same, as it was called before.
        max_tokens: i64,
        /// Whether log-probabilities are returned.
        logprobs: bool,
        /// How many likeliest tokens per position.
        top_logprobs: i64,
        /// Functions the model may call.
        tools: Vec<Map<String, Value>>,
        /// `none`, `auto`, `required`, or the function to call.
        tool_choice: Value,
        /// Whether several functions may be called at once. No effect: the model decides.
        parallel_tool_calls: bool,
        /// How long to think.
        reasoning_effort: Value,
        /// Whether thinking is a field of its own.
        separate_reasoning: bool,
        /// Whether thinking is streamed as it comes.
        stream_reasoning: bool,
        /// More variables for the template.
        chat_template_kwargs: Map<String, Value>,
        /// Whether the last message is a beginning to continue.
        continue_final_message: bool,
        /// What the answer is made of; text alone is served.
        modalities: Vec<String>,
        /// What is likely to be answered. No effect.
        prediction: Value,
        .. /// What completions have too.
        controls: Controls,
    }
}
