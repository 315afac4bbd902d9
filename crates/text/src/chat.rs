//! Messages as clients write them to messages as templates read them.

use serde_json::{Map, Value, json};

use crate::template::ContentFormat;

/// What is wrong with a conversation.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ChatError {
    /// The messages are not a list.
    #[error("messages is not a list")]
    NotAList,
    /// There is nothing to answer.
    #[error("messages is empty")]
    Empty,
    /// A message without a role.
    #[error("message {index} has no role")]
    NoRole {
        /// Its place in the list.
        index: usize,
    },
    /// A message whose content is neither text nor a list of parts.
    #[error("the content of message {index} is neither text nor a list of parts")]
    BadContent {
        /// Its place in the list.
        index: usize,
    },
    /// A part without a type.
    #[error("part {part} of message {index} has no type")]
    BadPart {
        /// The message's place in the list.
        index: usize,
        /// The part's place in the message.
        part: usize,
    },
    /// The arguments of a tool call are text that is not JSON.
    #[error("the arguments of tool call {call} in message {index} are not JSON")]
    BadArguments {
        /// The message's place in the list.
        index: usize,
        /// The call's place in the message.
        call: usize,
    },
}

/// Brings the messages of a request into the form that a template with this content format
/// expects: parts joined or kept, arguments of tool calls as objects, no absent fields.
pub fn prepare_messages(messages: &Value, format: ContentFormat) -> Result<Value, ChatError> {
    let list = messages.as_array().ok_or(ChatError::NotAList)?;
    if list.is_empty() {
        return Err(ChatError::Empty);
    }
    let prepared = list
        .iter()
        .enumerate()
        .map(|(index, message)| prepare(index, message, format));
    prepared.collect::<Result<Vec<_>, _>>().map(Value::Array)
}

fn prepare(index: usize, message: &Value, format: ContentFormat) -> Result<Value, ChatError> {
    let fields = message.as_object().ok_or(ChatError::NoRole { index })?;
    if !fields.get("role").is_some_and(Value::is_string) {
        return Err(ChatError::NoRole { index });
    }
    let mut prepared = Map::new();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let value = match name.as_str() {
            "content" => content(index, value, format)?,
            "tool_calls" => tool_calls(index, value)?,
            _ => value.clone(),
        };
        prepared.insert(name.clone(), value);
    }
    prepared
        .entry("content")
        .or_insert_with(|| as_content("", format));
    Ok(Value::Object(prepared))
}

fn as_content(text: &str, format: ContentFormat) -> Value {
    match format {
        ContentFormat::Parts => json!([{"type": "text", "text": text}]),
        ContentFormat::Text | ContentFormat::TextOrParts => Value::from(text),
    }
}

fn content(index: usize, value: &Value, format: ContentFormat) -> Result<Value, ChatError> {
    let parts = match value {
        Value::String(text) => return Ok(as_content(text, format)),
        Value::Array(parts) => parts,
        _ => return Err(ChatError::BadContent { index }),
    };
    let mut kept = Vec::with_capacity(parts.len());
    let mut texts = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        let kind = part.get("type").and_then(Value::as_str);
        let kind = kind.ok_or(ChatError::BadPart {
            index,
            part: number,
        })?;
        texts.extend(
            part.get("text")
                .and_then(Value::as_str)
                .filter(|_| kind == "text"),
        );
        // Templates write a placeholder for media; the media themselves travel apart.
        kept.push(match kind.strip_suffix("_url") {
            Some(media) => json!({"type": media}),
            None => part.clone(),
        });
    }
    Ok(match format {
        ContentFormat::Text => Value::from(texts.join(" ")),
        ContentFormat::TextOrParts | ContentFormat::Parts => Value::Array(kept),
    })
}

/// Clients send arguments as JSON text, templates walk through them as objects.
fn tool_calls(index: usize, value: &Value) -> Result<Value, ChatError> {
    let mut calls = value.clone();
    for (call, entry) in calls.as_array_mut().into_iter().flatten().enumerate() {
        let Some(arguments) = entry.pointer_mut("/function/arguments") else {
            continue;
        };
        if let Value::String(text) = arguments {
            let text = if text.trim().is_empty() {
                "{}"
            } else {
                text.as_str()
            };
            *arguments =
                serde_json::from_str(text).map_err(|_| ChatError::BadArguments { index, call })?;
        }
    }
    Ok(calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(message: &Value, format: ContentFormat) -> Value {
        prepare_messages(&json!([message]), format).unwrap()[0].clone()
    }

    #[test]
    fn content_takes_the_form_the_template_renders() {
        let parts = json!([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "b"}]);
        let table = [
            (json!("hi"), ContentFormat::Text, json!("hi")),
            (
                json!("hi"),
                ContentFormat::Parts,
                json!([{"type": "text", "text": "hi"}]),
            ),
            (Value::Null, ContentFormat::Text, json!("")),
            (parts.clone(), ContentFormat::Text, json!("a b")),
            (
                parts,
                ContentFormat::TextOrParts,
                json!([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]),
            ),
            (json!([]), ContentFormat::Text, json!("")),
        ];
        for (content, format, expected) in table {
            let message = json!({"role": "user", "content": content, "name": null});
            let expected = json!({"role": "user", "content": expected});
            assert_eq!(prepared(&message, format), expected);
        }
    }

    #[test]
    fn arguments_of_tool_calls_become_objects() {
        let message = json!({"role": "assistant", "tool_calls": [
            {"function": {"name": "f", "arguments": "{\"b\": 1, \"a\": 2}"}},
            {"function": {"name": "g", "arguments": ""}},
            {"function": {"name": "h", "arguments": {"x": 1}}},
        ]});
        let got = prepared(&message, ContentFormat::Text);
        let arguments: Vec<String> = got["tool_calls"]
            .as_array()
            .unwrap()
            .iter()
            .map(|call| call["function"]["arguments"].to_string())
            .collect();
        assert_eq!(arguments, [r#"{"b":1,"a":2}"#, "{}", r#"{"x":1}"#]);
        assert_eq!(got["content"], "");
    }

    #[test]
    fn malformed_conversations_are_refused_by_name() {
        let table = [
            (json!({}), "messages is not a list"),
            (json!([]), "messages is empty"),
            (json!(["x"]), "message 0 has no role"),
            (
                json!([{"role": "user"}, {"content": "x"}]),
                "message 1 has no role",
            ),
            (
                json!([{"role": "user", "content": 3}]),
                "the content of message 0 is neither text nor a list of parts",
            ),
            (
                json!([{"role": "user", "content": [1]}]),
                "part 0 of message 0 has no type",
            ),
            (
                json!([{"role": "assistant", "tool_calls": [{"function": {"arguments": "{"}}]}]),
                "the arguments of tool call 0 in message 0 are not JSON",
            ),
        ];
        for (messages, expected) in table {
            let error = prepare_messages(&messages, ContentFormat::Text).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}
