//! Chat templates: Jinja as models use it, rendered as the reference library renders it.

mod environment;
mod final_message;
mod generation_tags;
mod python_json;
mod python_repr;
mod python_text;
mod strftime;

use std::collections::BTreeMap;
use std::time::SystemTime;

use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, Value};
use serde_json::Map;

use crate::caught::caught;
use crate::tokenizer::SpecialTokens;

/// Instructions a rendering may take; the longest template needs a few thousand for a message.
const FUEL: u64 = 10_000_000;

/// Instructions for the tiny conversations that show what a template can do.
const PROBE_FUEL: u64 = 100_000;

/// Why a template could not be compiled or rendered.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// A compiled chat template.
#[derive(Debug)]
pub struct Template {
    environment: Environment<'static>,
    special: SpecialTokens,
    format: ContentFormat,
}

impl Template {
    /// Compiles a template. It is code from outside: it gets no loader, no files, and a limit.
    pub fn compile(source: &str, special: &SpecialTokens) -> Result<Self, TemplateError> {
        let mut environment = environment::new();
        let source = generation_tags::as_scopes(source);
        caught(|| environment.add_template_owned("chat", source))
            .map_err(TemplateError::EngineBroke)?
            .map_err(|error| TemplateError::Syntax(describe(&error)))?;
        let mut template = Self {
            environment,
            special: special.clone(),
            format: ContentFormat::Text,
        };
        template.environment.set_fuel(Some(PROBE_FUEL));
        template.format = template.find_format();
        template.environment.set_fuel(Some(FUEL));
        Ok(template)
    }

    /// Renders a conversation.
    pub fn render(&self, input: RenderInput<'_>) -> Result<String, TemplateError> {
        let mut messages = final_message::with_reasoning_names(input.messages)?;
        if !input.continue_final_message {
            return self.render_messages(&messages, input);
        }
        let mark = final_message::Mark::set(&mut messages)?;
        mark.cut(self.render_messages(&messages, input)?)
    }

    /// Which form of message content this template renders.
    pub fn content_format(&self) -> ContentFormat {
        self.format
    }

    fn render_messages(
        &self,
        messages: &serde_json::Value,
        input: RenderInput<'_>,
    ) -> Result<String, TemplateError> {
        let mut variables: BTreeMap<&str, Value> = BTreeMap::new();
        variables.insert("documents", Value::from(()));
        for (name, token) in self.special.named() {
            variables.insert(name, Value::from(token));
        }
        for (name, value) in input.kwargs.into_iter().flatten() {
            variables.insert(name, Value::from(Serde(value)));
        }
        variables.insert("messages", Value::from(Serde(messages)));
        variables.insert(
            "tools",
            input
                .tools
                .map_or(Value::from(()), |tools| Value::from(Serde(tools))),
        );
        variables.insert(
            "add_generation_prompt",
            Value::from(input.add_generation_prompt),
        );
        variables.insert("strftime_now", strftime::function(input.now));
        let template = self
            .environment
            .get_template("chat")
            .map_err(|error| classify(&error))?;
        caught(|| template.render(Value::from(variables)))
            .map_err(TemplateError::EngineBroke)?
            .map_err(|error| classify(&error))
    }

    /// Renders two small conversations to see which form of content comes out as text.
    fn find_format(&self) -> ContentFormat {
        const NEEDLE: &str = "n33dle";
        let shows = |content: serde_json::Value| {
            let messages = serde_json::json!([{"role": "user", "content": content}]);
            let rendered = self.render(RenderInput::new(&messages)).unwrap_or_default();
            rendered.contains(NEEDLE)
                && !rendered.contains("'text'")
                && !rendered.contains("\"text\"")
        };
        let text = shows(NEEDLE.into());
        let parts = shows(serde_json::json!([{"type": "text", "text": NEEDLE}]));
        match (text, parts) {
            (true, true) => ContentFormat::TextOrParts,
            (false, true) => ContentFormat::Parts,
            (_, false) => ContentFormat::Text,
        }
    }
}

/// A message of `raise_exception`, carried inside the engine's error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

fn classify(error: &minijinja::Error) -> TemplateError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(Raised(message)) = current.downcast_ref() {
            return TemplateError::Refused(message.clone());
        }
        if let Some(inner) = current.downcast_ref::<minijinja::Error>()
            && inner.kind() == ErrorKind::OutOfFuel
        {
            return TemplateError::TooLong { limit: FUEL };
        }
        cause = current.source();
    }
    TemplateError::Failed(describe(error))
}

/// What the engine says and where; without the source text it would quote.
fn describe(error: &minijinja::Error) -> String {
    let what = match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    };
    match error.line() {
        Some(line) => format!("{what} (line {line})"),
        None => what,
    }
}
