use serde::{Deserialize, Serialize};

/// Why a sequence ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum FinishReason {
    /// An end token or stop string was met.
    Stop {
        /// Which.
        #[serde(default)]
        matched: Option<Matched>,
    },
    /// There are as many tokens as allowed.
    Length {
        /// How many.
        #[serde(default)]
        length: usize,
    },
    /// The sequence was ended before it was complete.
    Abort {
        /// Why.
        #[serde(default)]
        message: String,
        /// The status it would have as a response of its own.
        #[serde(default)]
        status_code: Option<u16>,
        /// The kind of error.
        #[serde(default)]
        err_type: Option<String>,
    },
}

impl FinishReason {
    /// The word for it in the OpenAI API.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Stop { .. } => "stop",
            Self::Length { .. } => "length",
            Self::Abort { .. } => "abort",
        }
    }

    /// What ended it, if something was met.
    pub fn matched(&self) -> Option<&Matched> {
        match self {
            Self::Stop { matched } => matched.as_ref(),
            Self::Length { .. } | Self::Abort { .. } => None,
        }
    }
}

/// What was met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Matched {
    /// A token.
    Token(u32),
    /// A string.
    Text(String),
}
