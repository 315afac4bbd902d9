use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json::{OneOrMany, record};

record! {
    /// The body of `/tokenize`.
    pub struct TokenizeRequest {
        /// Which model; there is one.
        model: String,
        /// What to encode: this, or messages.
        prompt: OneOrMany<String>,
        /// Whether the tokens that begin or end a text are added; with messages the template decides unless this says so.
        add_special_tokens: bool,
        /// A conversation to encode as the model reads it.
        messages: Vec<Map<String, Value>>,
        /// Functions the model may call.
        tools: Vec<Map<String, Value>>,
        /// Whether the beginning of the model's turn is added to messages; it is when absent.
        add_generation_prompt: bool,
        /// Whether the last message is a beginning to continue.
        continue_final_message: bool,
        /// How long to think.
        reasoning_effort: Value,
        /// More variables for the template.
        chat_template_kwargs: Map<String, Value>,
    }
}

/// The answer of `/tokenize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenizeResponse {
    /// The tokens of the prompt, or of each prompt.
    pub tokens: Each<Vec<u32>>,
    /// How many, or how many of each.
    pub count: Each<usize>,
    /// Tokens a sequence may have.
    pub max_model_len: usize,
}

/// A value for the one prompt, or a list with one for each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Each<T> {
    /// For the one.
    One(T),
    /// One each.
    Many(Vec<T>),
}

impl<T> Each<T> {
    /// `values` in the form of a request that had one, or a list.
    pub fn like<U>(request: &OneOrMany<U>, mut values: Vec<T>) -> Self {
        match request {
            OneOrMany::One(_) if values.len() == 1 => Self::One(values.remove(0)),
            OneOrMany::One(_) | OneOrMany::Many(_) => Self::Many(values),
        }
    }
}

record! {
    /// The body of `/detokenize`.
    pub struct DetokenizeRequest {
        /// Which model; there is one.
        model: String,
        /// What to decode.
        @required tokens: OneOrMany<Vec<i64>>,
        /// Whether special tokens are left out.
        skip_special_tokens: bool,
    }
}

/// The answer of `/detokenize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetokenizeResponse {
    /// The text, or the text of each list.
    pub text: Each<String>,
}
