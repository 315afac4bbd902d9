//! What happens to messages before rendering, and to the text after it when the last message is continued.

use serde_json::{Map, Value};

use super::TemplateError;

/// Names under which clients and templates know a message's reasoning.
const REASONING_NAMES: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// A copy of the messages in which reasoning is found under every name that templates read.
pub(super) fn with_reasoning_names(messages: &Value) -> Result<Value, TemplateError> {
    let list = messages.as_array().map_or(&[][..], Vec::as_slice);
    let mut renamed = Vec::with_capacity(list.len());
    for (index, message) in list.iter().enumerate() {
        let message = message
            .as_object()
            .ok_or(TemplateError::NotAMessage { index })?;
        let reasoning = REASONING_NAMES
            .iter()
            .find_map(|name| message.get(*name).filter(|reasoning| !reasoning.is_null()));
        renamed.push(Value::Object(match reasoning {
            None => message.clone(),
            Some(reasoning) => {
                let mut named = Map::new();
                named.insert("thinking".to_owned(), reasoning.clone());
                named.extend(
                    message
                        .iter()
                        .map(|(name, value)| (name.clone(), value.clone())),
                );
                named.insert("reasoning_content".to_owned(), reasoning.clone());
                named
            }
        }));
    }
    Ok(Value::Array(renamed))
}

/// A mark behind the text of the last message; what a template puts after it is cut off.
pub(super) struct Mark {
    text: String,
}

impl Mark {
    const WORD: &str = "CONTINUE_FINAL_MESSAGE_TAG";

    /// Appends the mark to the last text of the last message.
    pub(super) fn set(messages: &mut Value) -> Result<Self, TemplateError> {
        let content = messages
            .as_array_mut()
            .and_then(|messages| messages.last_mut())
            .and_then(|message| message.get_mut("content"))
            .ok_or(TemplateError::NothingToContinue)?;
        let target = match content {
            Value::Array(parts) => parts.iter_mut().rev().find_map(|part| part.get_mut("text")),
            other => Some(other),
        };
        let Some(Value::String(target)) = target else {
            return Err(TemplateError::NothingToContinue);
        };
        let text = target.clone();
        target.push_str(Self::WORD);
        target.push(' ');
        Ok(Self { text })
    }

    /// The rendered text up to the mark. Where the template trimmed the message, so is the text.
    pub(super) fn cut(self, mut rendered: String) -> Result<String, TemplateError> {
        let at = rendered
            .rfind(Self::WORD)
            .ok_or(TemplateError::FinalMessageLost)?;
        if !rendered.contains(self.text.trim()) {
            return Err(TemplateError::FinalMessageLost);
        }
        let kept_space = rendered[at + Self::WORD.len()..].starts_with(' ');
        rendered.truncate(at);
        if !kept_space {
            rendered.truncate(rendered.trim_end().len());
        }
        Ok(rendered)
    }
}
