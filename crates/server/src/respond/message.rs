use protocol::openai::{ChatMessage, Delta, FunctionCall, ToolCall};
use text::{ReasoningEvent, ReasoningFormat, ReasoningParser, ToolEvent, ToolFormat, ToolParser};

use crate::request_id;

/// Tells apart what a model says to the user, to itself and to functions.
#[derive(Clone, Debug, Default)]
pub(crate) struct MessageParser {
    reasoning: Option<ReasoningParser>,
    tools: Option<ToolParser>,
    /// Thinking is told at its end; what there is of it so far.
    held: Option<String>,
    /// Functions were called.
    pub(super) has_calls: bool,
}

/// Whether thinking is told as it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thinking {
    AsItComes,
    AtItsEnd,
}

impl MessageParser {
    /// Looks for thinking in the answer to `prompt`.
    pub(crate) fn with_reasoning(
        mut self,
        format: ReasoningFormat,
        prompt: &str,
        thinking: Thinking,
    ) -> Self {
        self.reasoning = Some(ReasoningParser::new(format, prompt));
        self.held = (thinking == Thinking::AtItsEnd).then(String::new);
        self
    }

    /// Looks for calls of functions.
    pub(crate) fn with_tools(mut self, format: ToolFormat) -> Self {
        self.tools = Some(ToolParser::new(format));
        self
    }

    /// What a piece of text adds to the message; `is_last` ends it.
    pub(super) fn push(&mut self, text: &str, is_last: bool) -> Vec<Delta> {
        let mut deltas = Vec::new();
        let events = match &mut self.reasoning {
            None => vec![ReasoningEvent::Content(text.to_owned())],
            Some(parser) => {
                let mut events = parser.push(text);
                if is_last {
                    events.extend(parser.flush());
                }
                events
            }
        };
        for event in events {
            match event {
                ReasoningEvent::Reasoning(text) => self.think(text, &mut deltas),
                ReasoningEvent::Content(text) => {
                    self.tell_thoughts(&mut deltas);
                    self.answer(&text, &mut deltas);
                }
            }
        }
        if is_last {
            self.tell_thoughts(&mut deltas);
            let events = self
                .tools
                .as_mut()
                .map(ToolParser::flush)
                .unwrap_or_default();
            self.call(events, &mut deltas);
        }
        deltas
    }

    fn think(&mut self, text: String, deltas: &mut Vec<Delta>) {
        match &mut self.held {
            Some(held) => held.push_str(&text),
            None => deltas.push(Delta {
                reasoning_content: Some(text),
                ..Delta::default()
            }),
        }
    }

    fn tell_thoughts(&mut self, deltas: &mut Vec<Delta>) {
        if let Some(held) = self.held.as_mut().filter(|held| !held.is_empty()) {
            let text = std::mem::take(held);
            deltas.push(Delta {
                reasoning_content: Some(text),
                ..Delta::default()
            });
        }
    }

    fn answer(&mut self, text: &str, deltas: &mut Vec<Delta>) {
        let events = match &mut self.tools {
            None => vec![ToolEvent::Content(text.to_owned())],
            Some(parser) => parser.push(text),
        };
        self.call(events, deltas);
    }

    fn call(&mut self, events: Vec<ToolEvent>, deltas: &mut Vec<Delta>) {
        for event in events {
            let call = match event {
                ToolEvent::Content(text) if text.is_empty() => continue,
                ToolEvent::Content(text) => {
                    deltas.push(Delta {
                        content: Some(text),
                        ..Delta::default()
                    });
                    continue;
                }
                ToolEvent::Call { index, name } => {
                    self.has_calls = true;
                    let function = FunctionCall {
                        name: Some(name),
                        arguments: Some(String::new()),
                    };
                    ToolCall {
                        id: Some(request_id::new_call()),
                        index: Some(index),
                        kind: "function".into(),
                        function,
                    }
                }
                ToolEvent::Arguments { index, text } => ToolCall {
                    id: None,
                    index: Some(index),
                    kind: "function".into(),
                    function: FunctionCall {
                        name: None,
                        arguments: Some(text),
                    },
                },
            };
            deltas.push(Delta {
                tool_calls: Some(vec![call]),
                ..Delta::default()
            });
        }
    }

    /// The message that a whole text is.
    pub(super) fn message(&mut self, text: &str) -> ChatMessage {
        let mut message = ChatMessage {
            role: "assistant".into(),
            ..ChatMessage::default()
        };
        for delta in self.push(text, true) {
            add_text(&mut message.content, delta.content);
            add_text(&mut message.reasoning_content, delta.reasoning_content);
            for call in delta.tool_calls.into_iter().flatten() {
                add_call(message.tool_calls.get_or_insert_default(), call);
            }
        }
        if message.reasoning_content.is_none() && message.tool_calls.is_none() {
            message.content.get_or_insert_default();
        }
        message
    }
}

fn add_text(whole: &mut Option<String>, piece: Option<String>) {
    if let Some(piece) = piece {
        whole.get_or_insert_default().push_str(&piece);
    }
}

/// Pieces of a call follow its beginning.
fn add_call(calls: &mut Vec<ToolCall>, piece: ToolCall) {
    match calls.last_mut().filter(|_| piece.id.is_none()) {
        None => calls.push(piece),
        Some(call) => add_text(&mut call.function.arguments, piece.function.arguments),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "<think>Hm, a tool.</think>Let me look.\n<tool_call>\n\
                        {\"name\": \"find\", \"arguments\": {\"what\": \"x\"}}\n</tool_call>";

    fn parser(thinking: Thinking) -> MessageParser {
        MessageParser::default()
            .with_reasoning(ReasoningFormat::Qwen3, "", thinking)
            .with_tools(ToolFormat::Hermes)
    }

    #[test]
    fn a_message_has_thoughts_words_and_calls() {
        let mut parser = parser(Thinking::AsItComes);
        let message = parser.message(SAID);
        assert_eq!(message.reasoning_content.as_deref(), Some("Hm, a tool."));
        assert_eq!(message.content.as_deref(), Some("Let me look."));
        let calls = message.tool_calls.unwrap();
        assert_eq!(calls.len(), 1);
        assert_eq!(calls[0].function.name.as_deref(), Some("find"));
        let arguments = calls[0].function.arguments.as_deref().unwrap();
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(arguments).unwrap(),
            serde_json::json!({"what": "x"})
        );
        assert!(
            calls[0]
                .id
                .as_deref()
                .is_some_and(|id| id.starts_with("call_"))
        );
        assert!(parser.has_calls);
    }

    #[test]
    fn pieces_joined_are_the_message() {
        let whole = parser(Thinking::AsItComes).message(SAID);
        for thinking in [Thinking::AsItComes, Thinking::AtItsEnd] {
            let mut parser = parser(thinking);
            let mut message = ChatMessage::default();
            let mut thoughts = 0;
            for (index, character) in SAID.char_indices() {
                let is_last = index + 1 == SAID.len();
                for delta in parser.push(&character.to_string(), is_last) {
                    thoughts += usize::from(delta.reasoning_content.is_some());
                    add_text(&mut message.content, delta.content);
                    add_text(&mut message.reasoning_content, delta.reasoning_content);
                }
            }
            assert_eq!(message.content, whole.content);
            assert_eq!(message.reasoning_content, whole.reasoning_content);
            assert_eq!(thoughts == 1, thinking == Thinking::AtItsEnd, "{thoughts}");
        }
    }

    #[test]
    fn without_parsers_everything_is_said_to_the_user() {
        let message = MessageParser::default().message(SAID);
        assert_eq!(message.content.as_deref(), Some(SAID));
        assert_eq!(message.tool_calls, None);
        assert_eq!(
            MessageParser::default().message("").content.as_deref(),
            Some("")
        );
    }
}
