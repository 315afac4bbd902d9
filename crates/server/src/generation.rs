use std::sync::Arc;

use sampling::{LogProbRequest, SamplingParams, Token};
use text::StopPatterns;

/// Most outputs one request may ask for, over all its prompts.
pub(crate) const MAX_OUTPUTS: usize = 8192;

/// What a client wants, in the engine's words but for the prompt, which may still be text.
#[derive(Clone, Debug)]
pub(crate) struct Generation {
    /// The name of the request.
    pub(crate) id: String,
    /// The name that the client gave to all its prompts together.
    pub(crate) batch: Option<Arc<str>>,
    pub(crate) prompt: Prompt,
    pub(crate) sampling: Sampling,
    pub(crate) log_probs: Option<Arc<LogProbRequest>>,
    /// Prefixes are shared within a namespace only.
    pub(crate) namespace: Option<Arc<str>>,
    /// How important it is under the priority policy.
    pub(crate) priority: Option<i32>,
    pub(crate) told: Told,
}

/// Where a request may be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) in_metrics: bool,
    pub(crate) in_log: bool,
}

impl Default for Told {
    fn default() -> Self {
        Self {
            in_metrics: true,
            in_log: true,
        }
    }
}

/// Whether the answer is complete or comes in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Whole,
    Pieces,
}

impl Delivery {
    /// What the `stream` of a request says.
    pub(crate) fn wanted(stream: Option<bool>) -> Self {
        if stream == Some(true) {
            Self::Pieces
        } else {
            Self::Whole
        }
    }
}

/// What is to be continued.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Prompt {
    /// Text that a client wrote; it gets the tokens that begin a text.
    Text(String),
    /// Text that a template made; it says itself how it begins.
    Rendered(String),
    /// Tokens.
    Tokens(Vec<Token>),
}

/// How the output comes about.
#[derive(Clone, Debug)]
pub(crate) struct Sampling {
    pub(crate) params: Arc<SamplingParams>,
    /// Outputs per prompt.
    pub(crate) choices: u32,
    pub(crate) text: TextOptions,
    /// Tokens per event of a stream.
    pub(crate) stream_interval: usize,
}

/// How tokens become text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TextOptions {
    /// Strings that end the output.
    pub(crate) stop: Arc<[String]>,
    /// Patterns that end it.
    pub(crate) patterns: Option<StopPatterns>,
    /// What ended the output stays in the text.
    pub(crate) keep_stop: bool,
    /// Special tokens are left out of the text.
    pub(crate) skip_special: bool,
}

impl Prompt {
    /// Bytes of text that must be encoded.
    pub(crate) fn text_len(&self) -> usize {
        match self {
            Self::Text(text) | Self::Rendered(text) => text.len(),
            Self::Tokens(_) => 0,
        }
    }
}
