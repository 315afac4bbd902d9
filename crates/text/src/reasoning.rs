//! Reasoning apart from the answer: thinking tags and channels as a streaming parser.

mod harmony;
mod tags;

use std::str::FromStr;

use harmony::Harmony;
use tags::Tags;

/// A piece of what a model said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReasoningEvent {
    /// It was thinking.
    Reasoning(String),
    /// It was answering, or calling a tool.
    Content(String),
}

/// How a family of models marks its reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningFormat {
    /// `<think>` and `</think>`; a text begins inside, whether it says so or not.
    DeepSeekR1,
    /// `<think>` and `</think>`; a text may begin with them.
    Qwen3,
    /// As `Qwen3`, for models that always think.
    Qwen3Thinking,
    /// Channels of the harmony format: `analysis` is reasoning, `final` is the answer.
    GptOss,
    /// `◁think▷` and `◁/think▷`.
    Kimi,
}

/// A name that no reasoning parser has.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("reasoning parser {name:?} is not known, known are {known}")]
pub struct UnknownReasoningFormat {
    name: String,
    known: String,
}

/// Names as users write them on the command line.
const NAMES: &[(&str, ReasoningFormat)] = &[
    ("deepseek-r1", ReasoningFormat::DeepSeekR1),
    ("deepseek-v3", ReasoningFormat::Qwen3),
    ("glm45", ReasoningFormat::Qwen3),
    ("gpt-oss", ReasoningFormat::GptOss),
    ("kimi", ReasoningFormat::Kimi),
    ("kimi_k2", ReasoningFormat::Qwen3),
    ("minimax", ReasoningFormat::Qwen3Thinking),
    ("qwen3", ReasoningFormat::Qwen3),
    ("qwen3-thinking", ReasoningFormat::Qwen3Thinking),
    ("step3", ReasoningFormat::DeepSeekR1),
];

impl FromStr for ReasoningFormat {
    type Err = UnknownReasoningFormat;

    fn from_str(name: &str) -> Result<Self, UnknownReasoningFormat> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found
            .map(|(_, format)| *format)
            .ok_or_else(|| UnknownReasoningFormat {
                name: name.to_owned(),
                known: Self::NAMES.join(", "),
            })
    }
}

impl ReasoningFormat {
    /// Every name that is known.
    pub const NAMES: &[&str] = &{
        let mut names = [""; NAMES.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = NAMES[at].0;
            at += 1;
        }
        names
    };

    /// Whether the marks are special tokens, so that these must not be skipped when decoding.
    pub fn needs_special_tokens(self) -> bool {
        self == Self::GptOss
    }

    /// The marks around reasoning, where there are such.
    fn tags(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::DeepSeekR1 | Self::Qwen3 | Self::Qwen3Thinking => Some(("<think>", "</think>")),
            Self::Kimi => Some(("◁think▷", "◁/think▷")),
            Self::GptOss => None,
        }
    }

    /// Whether an answer to this prompt begins in the middle of reasoning: always for models that
    /// always think, else when the prompt ends with the mark that opens it.
    pub fn begins_inside(self, prompt: &str) -> bool {
        let opened = self
            .tags()
            .is_some_and(|(start, _)| prompt.trim_end().ends_with(start));
        opened || matches!(self, Self::DeepSeekR1 | Self::Qwen3Thinking)
    }
}

/// Tells reasoning from answer in a stream of text. How the text is cut makes no difference
/// to the joined pieces. White space around reasoning is dropped.
#[derive(Clone, Debug)]
pub struct ReasoningParser {
    machine: Machine,
}

#[derive(Clone, Debug)]
enum Machine {
    Tags(Tags),
    Harmony(Harmony),
}

impl ReasoningParser {
    /// A parser for the answer to `prompt`, which tells whether the answer begins inside.
    pub fn new(format: ReasoningFormat, prompt: &str) -> Self {
        let machine = match format.tags() {
            Some((start, end)) => {
                Machine::Tags(Tags::new(start, end, format.begins_inside(prompt)))
            }
            None => Machine::Harmony(Harmony::default()),
        };
        Self { machine }
    }

    /// Takes the next piece of text.
    pub fn push(&mut self, text: &str) -> Vec<ReasoningEvent> {
        let mut events = Events::default();
        match &mut self.machine {
            Machine::Tags(machine) => machine.push(text, &mut events),
            Machine::Harmony(machine) => machine.push(text, &mut events),
        }
        events.list
    }

    /// Ends the text.
    pub fn flush(&mut self) -> Vec<ReasoningEvent> {
        let mut events = Events::default();
        match &mut self.machine {
            Machine::Tags(machine) => machine.flush(&mut events),
            Machine::Harmony(machine) => machine.flush(&mut events),
        }
        events.list
    }
}

/// Events of one push; neighbours of a kind become one.
#[derive(Default)]
struct Events {
    list: Vec<ReasoningEvent>,
}

impl Events {
    fn reasoning(&mut self, text: &str) {
        match self.list.last_mut() {
            _ if text.is_empty() => {}
            Some(ReasoningEvent::Reasoning(last)) => last.push_str(text),
            _ => self.list.push(ReasoningEvent::Reasoning(text.to_owned())),
        }
    }

    fn content(&mut self, text: &str) {
        match self.list.last_mut() {
            _ if text.is_empty() => {}
            Some(ReasoningEvent::Content(last)) => last.push_str(text),
            _ => self.list.push(ReasoningEvent::Content(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests;
