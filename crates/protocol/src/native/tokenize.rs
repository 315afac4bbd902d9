use serde::{Deserialize, Serialize};

use crate::json::{OneOrMany, record};

record! {
    /// The body of `/tokenize`.
    pub struct TokenizeRequest {
        /// Which model; there is one.
        model: String,
        /// What to encode.
        prompt: OneOrMany<String>,
        /// Whether the tokens that begin or end a text are added.
        add_special_tokens: bool,
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
        tokens: OneOrMany<Vec<i64>>,
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
