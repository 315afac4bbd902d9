use protocol::openai::ChatRequest;
use serde_json::{Map, Value};
use text::{
    ReasoningFormat, RenderInput, SamplingDefaults, Template, ToolFormat, prepare_messages,
};

use super::log_probs;
use super::refuse::unless_absent;
use super::sampling::{self, Rules};
use super::spread::{names, namespaces, priority};
use crate::error::ApiError;
use crate::generation::{Generation, Prompt, Told};
use crate::pipeline::TextPipeline;
use crate::respond::message::{MessageParser, Thinking};

/// What a chat asks for.
pub(crate) struct Chat {
    pub(crate) generation: Generation,
    pub(crate) log_probs: bool,
    /// Ready for the beginning of the answer.
    pub(crate) parser: MessageParser,
}

pub(crate) fn chat(
    mut request: ChatRequest,
    text: &TextPipeline,
    defaults: &SamplingDefaults,
    rules: Rules,
) -> Result<Chat, ApiError> {
    let template = text.template.as_ref().ok_or_else(|| {
        ApiError::invalid("The model has no chat template; give one with --chat-template.")
    })?;
    let tools = tools(&request)?;
    let prompt = render(&mut request, template, tools.as_ref())?;
    let parsers = Parsers::wanted(&request, text, tools.is_some());
    let controls = &mut request.controls;
    let id = names(controls.rid.take(), 1)?.remove(0);
    let namespace = namespaces(controls.extra_key.take(), controls.cache_salt.take(), 1)?.remove(0);
    let max_tokens = request.max_completion_tokens.or(request.max_tokens);
    let mut sampling = sampling::openai(controls, max_tokens, defaults, rules)?;
    sampling.text.skip_special &= !parsers.need_special_tokens();
    let wanted = request.logprobs.unwrap_or(false);
    if !wanted && request.top_logprobs.is_some_and(|top| top > 0) {
        return Err(ApiError::invalid("top_logprobs needs logprobs to be true."));
    }
    let log_probs = if wanted {
        Some(log_probs::request(log_probs::Wanted {
            start: -1,
            top: request.top_logprobs.unwrap_or(0),
            token_ids: Vec::new(),
        })?)
    } else {
        None
    };
    let priority = priority(controls.priority);
    let parser = parsers.for_answer_to(&prompt);
    let prompt = Prompt::Rendered(prompt);
    let generation = Generation {
        id,
        prompt,
        sampling,
        log_probs,
        namespace,
        priority,
        told: Told::default(),
    };
    Ok(Chat {
        generation,
        log_probs: wanted,
        parser,
    })
}

/// What is looked for in the answer.
struct Parsers {
    reasoning: Option<(ReasoningFormat, Thinking)>,
    tools: Option<ToolFormat>,
}

impl Parsers {
    fn wanted(request: &ChatRequest, text: &TextPipeline, has_tools: bool) -> Self {
        let separate = request.separate_reasoning.unwrap_or(true);
        let thinking = match request.stream_reasoning {
            Some(false) => Thinking::AtItsEnd,
            _ => Thinking::AsItComes,
        };
        let reasoning = text.reasoning.filter(|_| separate);
        Self {
            reasoning: reasoning.map(|format| (format, thinking)),
            tools: text.tools.filter(|_| has_tools),
        }
    }

    fn need_special_tokens(&self) -> bool {
        self.reasoning
            .is_some_and(|(format, _)| format.needs_special_tokens())
            || self.tools.is_some_and(ToolFormat::needs_special_tokens)
    }

    fn for_answer_to(self, prompt: &str) -> MessageParser {
        let mut parser = MessageParser::default();
        if let Some((format, thinking)) = self.reasoning {
            parser = parser.with_reasoning(format, prompt, thinking);
        }
        if let Some(format) = self.tools {
            parser = parser.with_tools(format);
        }
        parser
    }
}

/// The conversation as the model reads it.
fn render(
    request: &mut ChatRequest,
    template: &Template,
    tools: Option<&Value>,
) -> Result<String, ApiError> {
    let messages = request.messages.take();
    let messages = messages.ok_or_else(|| ApiError::invalid("messages: field required"))?;
    if messages.is_empty() {
        return Err(ApiError::invalid("Messages cannot be empty."));
    }
    check_messages(&messages)?;
    let messages = Value::Array(messages.into_iter().map(Value::Object).collect());
    let messages = prepare_messages(&messages, template.content_format())
        .map_err(|error| ApiError::Invalid(error.to_string()))?;
    let kwargs = kwargs(request);
    let continues = request.continue_final_message.unwrap_or(false);
    Ok(template.render(RenderInput {
        messages: &messages,
        tools,
        add_generation_prompt: !continues,
        continue_final_message: continues,
        kwargs: Some(&kwargs),
        now: None,
    })?)
}

const ROLES: [&str; 6] = [
    "system",
    "user",
    "assistant",
    "tool",
    "function",
    "developer",
];

fn check_messages(messages: &[Map<String, Value>]) -> Result<(), ApiError> {
    for (index, message) in messages.iter().enumerate() {
        let role = message.get("role").and_then(Value::as_str);
        let Some(role) = role else {
            return Err(ApiError::Invalid(format!(
                "messages[{index}].role: field required"
            )));
        };
        if !ROLES.contains(&role) {
            return Err(ApiError::Invalid(format!(
                "messages[{index}].role: expected one of {}, got {role:?}",
                ROLES.join(", ")
            )));
        }
        let content = message.get("content").filter(|content| !content.is_null());
        if role == "user" && content.is_none() {
            return Err(ApiError::Invalid(format!(
                "messages[{index}].content: field required"
            )));
        }
        let parts = content.and_then(Value::as_array);
        for (number, part) in parts.into_iter().flatten().enumerate() {
            let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
            if kind.ends_with("_url") {
                return Err(ApiError::Invalid(format!(
                    "messages[{index}].content[{number}]: {kind} is not supported by this server."
                )));
            }
        }
    }
    Ok(())
}

/// The tools that the template may show.
fn tools(request: &ChatRequest) -> Result<Option<Value>, ApiError> {
    let wanted = may_choose_tools(request.tool_choice.as_ref())?;
    let given = request.tools.as_ref().filter(|tools| !tools.is_empty());
    let Some(tools) = given.filter(|_| wanted) else {
        return Ok(None);
    };
    for (index, tool) in tools.iter().enumerate() {
        let name = tool
            .get("function")
            .and_then(|function| function.get("name"));
        if !name.is_some_and(Value::is_string) {
            return Err(ApiError::Invalid(format!(
                "tools[{index}].function.name: field required"
            )));
        }
    }
    Ok(Some(Value::Array(
        tools.iter().cloned().map(Value::Object).collect(),
    )))
}

/// Whether the model may choose tools; that it has to is refused.
fn may_choose_tools(choice: Option<&Value>) -> Result<bool, ApiError> {
    let Some(choice) = choice else {
        return Ok(true);
    };
    let named = choice.pointer("/function/name").is_some();
    unless_absent([
        ("tool_choice \"required\"", choice == "required"),
        ("tool_choice with a named function", named),
    ])?;
    match choice.as_str() {
        Some("auto") => Ok(true),
        Some("none") => Ok(false),
        _ => Err(ApiError::invalid(
            "tool_choice: expected auto, none, required or a function with its name",
        )),
    }
}

fn kwargs(request: &mut ChatRequest) -> Map<String, Value> {
    let mut kwargs = request.chat_template_kwargs.take().unwrap_or_default();
    if let Some(effort) = request.reasoning_effort.take() {
        kwargs.entry("reasoning_effort").or_insert(effort);
    }
    kwargs
}
