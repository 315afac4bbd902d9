//! A template that this process parsed and renders itself.

use std::collections::BTreeMap;

use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, Value};

use super::{ContentFormat, RenderInput, TemplateError};
use super::{bounds, environment, final_message, generation_tags, strftime};
use crate::caught::caught;
use crate::tokenizer::SpecialTokens;

/// Instructions a rendering may take; the longest template needs a few thousand for a message.
const FUEL: u64 = 10_000_000;

/// Instructions for the tiny conversations that show what a template can do.
const PROBE_FUEL: u64 = 100_000;

#[derive(Debug)]
pub(super) struct Compiled {
    environment: Environment<'static>,
    special: SpecialTokens,
}

impl Compiled {
    /// Parses a template. It is code from outside: it gets no loader, no files, and a limit.
    pub(super) fn new(source: &str, special: &SpecialTokens) -> Result<Self, TemplateError> {
        bounds::check(source)?;
        let mut environment = environment::new();
        let source = generation_tags::as_scopes(source);
        caught(|| environment.add_template_owned("chat", source))
            .map_err(TemplateError::EngineBroke)?
            .map_err(|error| TemplateError::Syntax(describe(&error)))?;
        environment.set_fuel(Some(FUEL));
        Ok(Self {
            environment,
            special: special.clone(),
        })
    }

    pub(super) fn render(&self, input: RenderInput<'_>) -> Result<String, TemplateError> {
        let mut messages = final_message::with_reasoning_names(input.messages)?;
        if !input.continue_final_message {
            return self.render_messages(&messages, input);
        }
        let mark = final_message::Mark::set(&mut messages)?;
        mark.cut(self.render_messages(&messages, input)?)
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
    pub(super) fn find_format(&mut self) -> ContentFormat {
        const NEEDLE: &str = "n33dle";
        self.environment.set_fuel(Some(PROBE_FUEL));
        let shows = |content: serde_json::Value| {
            let messages = serde_json::json!([{"role": "user", "content": content}]);
            let rendered = self.render(RenderInput::new(&messages)).unwrap_or_default();
            rendered.contains(NEEDLE)
                && !rendered.contains("'text'")
                && !rendered.contains("\"text\"")
        };
        let text = shows(NEEDLE.into());
        let parts = shows(serde_json::json!([{"type": "text", "text": NEEDLE}]));
        self.environment.set_fuel(Some(FUEL));
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
pub(super) struct Raised(pub(super) String);

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
