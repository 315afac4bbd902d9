//! Chat templates: Jinja as models use it, rendered as the reference library renders it.

mod bounds;
mod compiled;
mod environment;
mod final_message;
mod generation_tags;
mod process;
mod python_json;
mod python_repr;
mod python_text;
mod sandbox;
mod strftime;
mod wire;

use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::Map;

pub use self::process::serve as serve_sandbox;
pub use self::sandbox::{Sandbox, SandboxLimits};

use self::compiled::Compiled;
use self::sandbox::Remote;
use crate::tokenizer::SpecialTokens;

/// Why a template could not be compiled or rendered.
#[derive(Debug, Serialize, Deserialize, thiserror::Error)]
pub enum TemplateError {
    /// The template is longer than any real one.
    #[error("the chat template has {length} bytes, the limit is {limit}")]
    TooLarge {
        /// Its length.
        length: usize,
        /// The most that is read.
        limit: usize,
    },
    /// One tag holds so many tokens, or one condition so many cases, that parsing could exhaust the stack.
    #[error("the chat template has more than {limit} {what} (line {line})")]
    TooDeep {
        /// What there are too many of.
        what: String,
        /// The most that is parsed.
        limit: usize,
        /// Where the limit is passed.
        line: usize,
    },
    /// The template is not Jinja.
    #[error("the chat template is malformed: {0}")]
    Syntax(String),
    /// The template itself refused the conversation.
    #[error("{0}")]
    Refused(String),
    /// An operation in the template failed on this conversation.
    #[error("the chat template cannot render this conversation: {0}")]
    Failed(String),
    /// The template runs for too long.
    #[error("the chat template takes more than {limit} steps")]
    TooLong {
        /// The most that are taken.
        limit: u64,
    },
    /// The template engine broke on an operation in the template.
    #[error("the chat template broke the template engine: {0}")]
    EngineBroke(String),
    /// Rendering needed more memory than its process has.
    #[error("the chat template needs more than {} MiB of memory", limit >> 20)]
    OutOfMemory {
        /// Bytes it may take for a conversation of this length.
        limit: u64,
    },
    /// Rendering took too long.
    #[error("the chat template takes more than {seconds} s")]
    OutOfTime {
        /// Seconds of a processor that it may take for a conversation of this length.
        seconds: u64,
    },
    /// Parsing or rendering ended the process that does it.
    #[error("the chat template broke the process that renders it: {0}")]
    ProcessEnded(String),
    /// There is no process to render in.
    #[error("no process can render the chat template: {0}")]
    NoProcess(String),
    /// Messages are not a list of objects.
    #[error("message {index} is not an object")]
    NotAMessage {
        /// Its place in the list.
        index: usize,
    },
    /// The last message is to be continued but there is no text in it.
    #[error("the final message has no text to continue")]
    NothingToContinue,
    /// The last message is to be continued but the template leaves it out or changes it.
    #[error("the final message does not appear in the rendered conversation")]
    FinalMessageLost,
}

/// Which form of message content a template renders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContentFormat {
    /// Only text.
    Text,
    /// Text, or a list of parts.
    TextOrParts,
    /// Only a list of parts.
    Parts,
}

/// What a template is given.
#[derive(Clone, Copy, Debug)]
pub struct RenderInput<'a> {
    /// The conversation: a list of objects with `role` and `content`.
    pub messages: &'a serde_json::Value,
    /// Descriptions of the tools that may be called.
    pub tools: Option<&'a serde_json::Value>,
    /// End with the beginning of the assistant's turn.
    pub add_generation_prompt: bool,
    /// End in the middle of the last message instead.
    pub continue_final_message: bool,
    /// Further variables (`enable_thinking`, `documents`, …).
    pub kwargs: Option<&'a Map<String, serde_json::Value>>,
    /// The time that `strftime_now` tells, in UTC; the clock when absent.
    pub now: Option<SystemTime>,
}

impl<'a> RenderInput<'a> {
    /// A conversation to be answered, without tools or further variables.
    pub fn new(messages: &'a serde_json::Value) -> Self {
        Self {
            messages,
            tools: None,
            add_generation_prompt: true,
            continue_final_message: false,
            kwargs: None,
            now: None,
        }
    }
}

/// A chat template that was found to be well formed.
#[derive(Debug)]
pub struct Template {
    home: Home,
    format: ContentFormat,
}

/// Where a template is rendered.
#[derive(Debug)]
enum Home {
    ThisProcess(Box<Compiled>),
    Sandbox(Remote),
}

impl Template {
    /// Compiles a template to be rendered in this process, on the caller's thread. Steps are bounded, memory and
    /// time are not: a template that is not trusted belongs into a [`Sandbox`].
    pub fn compile(source: &str, special: &SpecialTokens) -> Result<Self, TemplateError> {
        let mut compiled = Compiled::new(source, special)?;
        let format = compiled.find_format();
        Ok(Self {
            home: Home::ThisProcess(Box::new(compiled)),
            format,
        })
    }

    /// Compiles a template to be rendered in processes of their own, with bounds on memory, time and stack.
    pub fn compile_in(
        sandbox: &Arc<Sandbox>,
        source: &str,
        special: &SpecialTokens,
    ) -> Result<Self, TemplateError> {
        bounds::check(source)?;
        let (remote, format) = Remote::compile(sandbox, source, special)?;
        Ok(Self {
            home: Home::Sandbox(remote),
            format,
        })
    }

    /// Renders a conversation.
    pub fn render(&self, input: RenderInput<'_>) -> Result<String, TemplateError> {
        match &self.home {
            Home::ThisProcess(compiled) => compiled.render(input),
            Home::Sandbox(remote) => remote.render(input),
        }
    }

    /// Which form of message content this template renders.
    pub fn content_format(&self) -> ContentFormat {
        self.format
    }
}
