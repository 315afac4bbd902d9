use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The body of an error of the OpenAI API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorResponse {
    /// Always `error`.
    pub object: Cow<'static, str>,
    /// In words.
    pub message: String,
    /// The kind of error.
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    /// The field to blame.
    pub param: Option<String>,
    /// The HTTP status.
    pub code: u16,
}

impl ErrorResponse {
    /// An error of this kind and status.
    pub fn new(message: impl Into<String>, kind: &'static str, code: u16) -> Self {
        Self {
            object: "error".into(),
            message: message.into(),
            kind: kind.into(),
            param: None,
            code,
        }
    }
}

/// The data of an error event in a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamError {
    /// What went wrong.
    pub error: ErrorResponse,
}

/// The answer about a model that is not served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelNotFound {
    /// What went wrong.
    pub error: NestedError,
}

/// An error whose code is a word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NestedError {
    /// In words.
    pub message: String,
    /// The kind of error.
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    /// The field to blame.
    pub param: Cow<'static, str>,
    /// The kind of error, more precisely.
    pub code: Cow<'static, str>,
}

impl ModelNotFound {
    /// There is no model of this name.
    pub fn new(model: &str) -> Self {
        Self {
            error: NestedError {
                message: format!("The model '{model}' does not exist"),
                kind: "invalid_request_error".into(),
                param: "model".into(),
                code: "model_not_found".into(),
            },
        }
    }
}
