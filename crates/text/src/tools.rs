//! Tool calls in what a model says: one streaming parser per format.

mod deepseek;
mod gpt_oss;
mod hermes;
mod json_span;
mod llama3;
mod mistral;
mod object_call;
mod python_literal;
mod pythonic;

use std::str::FromStr;

use deepseek::DeepSeek;
use gpt_oss::GptOss;
use hermes::Hermes;
use llama3::Llama3;
use mistral::Mistral;
use pythonic::Pythonic;

/// A piece of what a model said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolEvent {
    /// Text for the reader.
    Content(String),
    /// A call begins.
    Call {
        /// Its place among the calls of this answer.
        index: usize,
        /// The function called.
        name: String,
    },
    /// The next part of a call's arguments; all parts joined are JSON, if the model made no mistake.
    Arguments {
        /// Which call.
        index: usize,
        /// The text.
        text: String,
    },
}

/// How a family of models writes tool calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolFormat {
    /// `<tool_call>{"name": …, "arguments": …}</tool_call>`.
    Hermes,
    /// `<|python_tag|>{"name": …, "parameters": …}`, or the object alone.
    Llama3,
    /// `[TOOL_CALLS][{"name": …, "arguments": …}]`, or `[TOOL_CALLS]name[ARGS]{…}`.
    Mistral,
    /// `<｜tool▁calls▁begin｜>…`, with and without a code fence around the arguments.
    DeepSeek,
    /// `[name(argument=value)]`.
    Pythonic,
    /// Messages of the harmony format to `functions.name`.
    GptOss,
}

/// A name that no tool-call parser has.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("tool-call parser {name:?} is not known, known are {known}")]
pub struct UnknownToolFormat {
    name: String,
    known: String,
}

/// Names as users write them on the command line.
const NAMES: &[(&str, ToolFormat)] = &[
    ("deepseekv3", ToolFormat::DeepSeek),
    ("deepseekv31", ToolFormat::DeepSeek),
    ("gpt-oss", ToolFormat::GptOss),
    ("hermes", ToolFormat::Hermes),
    ("llama3", ToolFormat::Llama3),
    ("mistral", ToolFormat::Mistral),
    ("pythonic", ToolFormat::Pythonic),
    ("qwen", ToolFormat::Hermes),
    ("qwen25", ToolFormat::Hermes),
];

impl FromStr for ToolFormat {
    type Err = UnknownToolFormat;

    fn from_str(name: &str) -> Result<Self, UnknownToolFormat> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found
            .map(|(_, format)| *format)
            .ok_or_else(|| UnknownToolFormat {
                name: name.to_owned(),
                known: Self::NAMES.join(", "),
            })
    }
}

impl ToolFormat {
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
        matches!(
            self,
            Self::Llama3 | Self::Mistral | Self::DeepSeek | Self::GptOss
        )
    }
}

/// Finds tool calls in a stream of text. How the text is cut makes no difference to the joined
/// pieces. What looks like a call and is none is said as content; white space before a call is not.
#[derive(Clone, Debug)]
pub struct ToolParser {
    machine: Machine,
    calls: usize,
}

#[derive(Clone, Debug)]
enum Machine {
    Hermes(Hermes),
    Llama3(Llama3),
    Mistral(Mistral),
    DeepSeek(DeepSeek),
    Pythonic(Pythonic),
    GptOss(GptOss),
}

impl ToolParser {
    /// A parser at the beginning of an answer.
    pub fn new(format: ToolFormat) -> Self {
        let machine = match format {
            ToolFormat::Hermes => Machine::Hermes(Hermes::default()),
            ToolFormat::Llama3 => Machine::Llama3(Llama3::default()),
            ToolFormat::Mistral => Machine::Mistral(Mistral::default()),
            ToolFormat::DeepSeek => Machine::DeepSeek(DeepSeek::default()),
            ToolFormat::Pythonic => Machine::Pythonic(Pythonic::default()),
            ToolFormat::GptOss => Machine::GptOss(GptOss::default()),
        };
        Self { machine, calls: 0 }
    }

    /// Takes the next piece of text.
    pub fn push(&mut self, text: &str) -> Vec<ToolEvent> {
        self.run(|machine, output| match machine {
            Machine::Hermes(machine) => machine.push(text, output),
            Machine::Llama3(machine) => machine.push(text, output),
            Machine::Mistral(machine) => machine.push(text, output),
            Machine::DeepSeek(machine) => machine.push(text, output),
            Machine::Pythonic(machine) => machine.push(text, output),
            Machine::GptOss(machine) => machine.push(text, output),
        })
    }

    /// Ends the text.
    pub fn flush(&mut self) -> Vec<ToolEvent> {
        self.run(|machine, output| match machine {
            Machine::Hermes(machine) => machine.flush(output),
            Machine::Llama3(machine) => machine.flush(output),
            Machine::Mistral(machine) => machine.flush(output),
            Machine::DeepSeek(machine) => machine.flush(output),
            Machine::Pythonic(machine) => machine.flush(output),
            Machine::GptOss(machine) => machine.flush(output),
        })
    }

    /// How many calls have begun.
    pub fn calls(&self) -> usize {
        self.calls
    }

    fn run(&mut self, work: impl FnOnce(&mut Machine, &mut Output)) -> Vec<ToolEvent> {
        let mut output = Output {
            events: Vec::new(),
            calls: self.calls,
        };
        work(&mut self.machine, &mut output);
        self.calls = output.calls;
        output.events
    }
}

/// Events of one push; neighbours of a kind become one.
struct Output {
    events: Vec<ToolEvent>,
    calls: usize,
}

impl Output {
    fn content(&mut self, text: &str) {
        match self.events.last_mut() {
            _ if text.is_empty() => {}
            Some(ToolEvent::Content(last)) => last.push_str(text),
            _ => self.events.push(ToolEvent::Content(text.to_owned())),
        }
    }

    fn call(&mut self, name: &str) {
        self.events.push(ToolEvent::Call {
            index: self.calls,
            name: name.to_owned(),
        });
        self.calls += 1;
    }

    /// More arguments of the call that began last.
    fn arguments(&mut self, text: &str) {
        match self.events.last_mut() {
            _ if text.is_empty() => {}
            Some(ToolEvent::Arguments { text: last, .. }) => last.push_str(text),
            _ => {
                let index = self.calls.saturating_sub(1);
                self.events.push(ToolEvent::Arguments {
                    index,
                    text: text.to_owned(),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests;
