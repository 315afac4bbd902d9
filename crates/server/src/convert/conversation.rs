use serde_json::{Map, Value};
use text::{RenderInput, Template, prepare_messages};

use super::refuse::unless_absent;
use crate::error::ApiError;

/// Most messages of a conversation: each is work for the template.
const MAX_MESSAGES: usize = 16_384;

/// Most tools of a conversation.
const MAX_TOOLS: usize = 4096;

/// What a template turns into a prompt.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    pub(crate) messages: Option<Vec<Map<String, Value>>>,
    pub(crate) tools: Option<Vec<Map<String, Value>>>,
    pub(crate) tool_choice: Option<Value>,
    pub(crate) reasoning_effort: Option<Value>,
    pub(crate) kwargs: Option<Map<String, Value>>,
    /// Ends with the beginning of the model's turn, unless this is false.
    pub(crate) add_generation_prompt: Option<bool>,
    pub(crate) continue_final_message: Option<bool>,
}

/// A conversation as the model reads it.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    /// The model may call functions.
    pub(crate) has_tools: bool,
}

impl Conversation {
    /// The prompt.
    pub(crate) fn render(self, template: Option<&Template>) -> Result<Rendered, ApiError> {
        let template = template.ok_or_else(|| {
            ApiError::invalid("The model has no chat template; give one with --chat-template.")
        })?;
        let tools = tools(self.tools, self.tool_choice.as_ref())?;
        let messages = self.messages;
        let messages = messages.ok_or_else(|| ApiError::invalid("messages: field required"))?;
        check_messages(&messages)?;
        let messages = Value::Array(messages.into_iter().map(Value::Object).collect());
        let messages = prepare_messages(&messages, template.content_format())
            .map_err(|error| ApiError::Invalid(error.to_string()))?;
        let mut kwargs = self.kwargs.unwrap_or_default();
        if let Some(effort) = self.reasoning_effort {
            kwargs.entry("reasoning_effort").or_insert(effort);
        }
        let continues = self.continue_final_message.unwrap_or(false);
        let text = template.render(RenderInput {
            messages: &messages,
            tools: tools.as_ref(),
            add_generation_prompt: !continues && self.add_generation_prompt.unwrap_or(true),
            continue_final_message: continues,
            kwargs: Some(&kwargs),
            now: None,
        })?;
        Ok(Rendered {
            text,
            has_tools: tools.is_some(),
        })
    }
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
    if messages.is_empty() {
        return Err(ApiError::invalid("Messages cannot be empty."));
    }
    if messages.len() > MAX_MESSAGES {
        return Err(ApiError::Invalid(format!(
            "messages: at most {MAX_MESSAGES} are taken, got {}; join some or leave some out",
            messages.len()
        )));
    }
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
            if kind.ends_with("_url") || kind == "input_audio" {
                return Err(ApiError::Invalid(format!(
                    "messages[{index}].content[{number}]: {kind} is not supported by this server: the model reads \
                     text alone."
                )));
            }
        }
    }
    Ok(())
}

/// The tools that the template may show.
fn tools(
    given: Option<Vec<Map<String, Value>>>,
    choice: Option<&Value>,
) -> Result<Option<Value>, ApiError> {
    let wanted = may_choose_tools(choice)?;
    let tools = given.filter(|tools| !tools.is_empty() && wanted);
    let Some(tools) = tools else {
        return Ok(None);
    };
    if tools.len() > MAX_TOOLS {
        return Err(ApiError::Invalid(format!(
            "tools: at most {MAX_TOOLS} are taken, got {}; leave some out",
            tools.len()
        )));
    }
    for (index, tool) in tools.iter().enumerate() {
        let function = tool.get("function");
        let name = function.and_then(|function| function.get("name"));
        if !name.is_some_and(Value::is_string) {
            return Err(ApiError::Invalid(format!(
                "tools[{index}].function.name: field required"
            )));
        }
        let is_strict = |strict: Option<&Value>| strict == Some(&Value::Bool(true));
        if is_strict(tool.get("strict")) || is_strict(function.and_then(|all| all.get("strict"))) {
            return Err(ApiError::Invalid(format!(
                "tools[{index}].function.strict is not supported by this server: arguments are not held to their \
                 schema yet; leave it out and check them in the client."
            )));
        }
    }
    Ok(Some(Value::Array(
        tools.into_iter().map(Value::Object).collect(),
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
