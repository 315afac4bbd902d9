//! The parts of events that figures need; everything else is passed over, nulls are absence.

use crate::record::{Failure, Usage};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize, Default)]
pub(super) struct MetaInfo {
    pub(super) completion_tokens: Option<u64>,
    pub(super) prompt_tokens: Option<u64>,
    pub(super) cached_tokens: Option<u64>,
    pub(super) cached_tokens_details: Option<Value>,
    pub(super) spec_accept_length: Option<f64>,
    pub(super) finish_reason: Option<Value>,
}

impl MetaInfo {
    /// Takes over what this event says; what it does not say stays as it was.
    pub(super) fn add_to(self, usage: &mut Usage) {
        usage.output_tokens = self.completion_tokens.or(usage.output_tokens);
        usage.prompt_tokens = self.prompt_tokens.or(usage.prompt_tokens);
        usage.cached_tokens = self.cached_tokens.or(usage.cached_tokens);
        let details = self.cached_tokens_details;
        usage.cached_tokens_details = details.or(usage.cached_tokens_details.take());
        usage.accept_length = self.spec_accept_length.or(usage.accept_length);
    }
}

#[derive(Deserialize)]
pub(super) struct NativeEvent {
    pub(super) text: Option<String>,
    pub(super) meta_info: Option<MetaInfo>,
    pub(super) error: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct OpenAiEvent {
    pub(super) choices: Option<Vec<Choice>>,
    pub(super) usage: Option<OpenAiUsage>,
    pub(super) error: Option<Value>,
    pub(super) sglext: Option<Extension>,
}

#[derive(Deserialize)]
pub(super) struct Choice {
    pub(super) text: Option<String>,
    pub(super) delta: Option<Message>,
    pub(super) message: Option<Message>,
    pub(super) finish_reason: Option<Value>,
    pub(super) meta_info: Option<MetaInfo>,
}

#[derive(Deserialize, Default)]
pub(super) struct Message {
    content: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    tool_calls: Option<Vec<ToolCall>>,
}

#[derive(Deserialize)]
struct ToolCall {
    function: Option<Function>,
}

#[derive(Deserialize)]
struct Function {
    name: Option<String>,
    arguments: Option<Value>,
}

impl Message {
    /// Names and arguments of tool calls, or the parts of them that this event brings.
    pub(super) fn tool_text(&self) -> String {
        let calls = self.tool_calls.iter().flatten();
        let mut text = String::new();
        for function in calls.filter_map(|call| call.function.as_ref()) {
            text.extend(function.name.as_deref());
            match &function.arguments {
                None | Some(Value::Null) => {}
                Some(Value::String(part)) => text.push_str(part),
                // Some servers send arguments in one piece, as an object.
                Some(whole) => text.push_str(&whole.to_string()),
            }
        }
        text
    }

    /// Thoughts and words; servers name the thoughts in two ways, some in both.
    pub(super) fn into_text(self) -> String {
        let named = self.reasoning_content.filter(|text| !text.is_empty());
        let mut text = named.or(self.reasoning).unwrap_or_default();
        let content = self.content.unwrap_or_default();
        if text.is_empty() {
            return content;
        }
        text.push_str(&content);
        text
    }
}

#[derive(Deserialize)]
pub(super) struct OpenAiUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct Extension {
    cached_tokens_details: Option<Value>,
}

impl OpenAiEvent {
    /// All output tokens so far by this event's count; zero when it does not say.
    pub(super) fn counted(&self) -> u32 {
        let usage = self.usage.as_ref();
        let count = usage.and_then(|usage| usage.completion_tokens);
        count
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(0)
    }
}

impl OpenAiUsage {
    /// Takes over what this event says; what it does not say stays as it was.
    pub(super) fn add_to(&self, usage: &mut Usage) {
        usage.prompt_tokens = self.prompt_tokens.or(usage.prompt_tokens);
        usage.output_tokens = self.completion_tokens.or(usage.output_tokens);
        let cached = self
            .prompt_tokens_details
            .as_ref()
            .and_then(|details| details.cached_tokens);
        usage.cached_tokens = cached.or(usage.cached_tokens);
    }
}

impl Extension {
    /// The cache counts of this extension: by place, and summed over the places.
    pub(super) fn add_to(self, usage: &mut Usage) {
        let Some(details) = self.cached_tokens_details else {
            return;
        };
        let places = ["device", "host", "storage"];
        usage.cached_tokens = Some(
            places
                .iter()
                .filter_map(|place| details[*place].as_u64())
                .sum(),
        );
        usage.cached_tokens_details = Some(details);
    }
}

/// The words of an error object inside a stream.
pub(super) fn in_stream(error: &Value) -> Failure {
    let message = error["message"]
        .as_str()
        .map_or_else(|| error.to_string(), str::to_owned);
    Failure::InStream { message }
}
