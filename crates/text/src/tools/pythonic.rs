//! `[name(argument=value), …]`, as Llama 4 and others write.

use super::Output;
use super::python_literal::{call, is_name};
use crate::markers::{Cutter, Gate};

const START: &str = "<|python_start|>";
const END: &str = "<|python_end|>";

#[derive(Clone, Debug, Default)]
pub(super) struct Pythonic {
    cutter: Cutter,
    gate: Gate,
    state: State,
    /// Text of the list that was read and may turn out to be none.
    raw: String,
}

#[derive(Clone, Debug, Default)]
enum State {
    /// A list of calls can only come first.
    #[default]
    Begin,
    /// In the list, before a call.
    Between,
    /// In a call.
    Call(Nesting),
    Content,
}

/// Open brackets and quotes of a call being read.
#[derive(Clone, Debug, Default)]
struct Nesting {
    depth: usize,
    quote: Option<char>,
    escaped: bool,
}

impl Nesting {
    /// Takes a character of a call; None when it cannot belong to one, true when it ends it.
    fn feed(&mut self, character: char) -> Option<bool> {
        if let Some(quote) = self.quote {
            match character {
                _ if self.escaped => self.escaped = false,
                '\\' => self.escaped = true,
                _ if character == quote => self.quote = None,
                _ => {}
            }
            return Some(false);
        }
        match character {
            '(' | '[' | '{' if self.depth > 0 || character == '(' => self.depth += 1,
            ')' | ']' | '}' if self.depth > 0 => self.depth -= 1,
            '\'' | '"' if self.depth > 0 => self.quote = Some(character),
            _ if self.depth > 0 || is_name(character) || character.is_whitespace() => {
                return Some(false);
            }
            _ => return None,
        }
        Some(self.depth == 0)
    }
}

impl Pythonic {
    pub(super) fn push(&mut self, text: &str, output: &mut Output) {
        self.cutter.push(text);
        while self.step(output) {}
    }

    fn step(&mut self, output: &mut Output) -> bool {
        match &mut self.state {
            State::Begin => self.begin(),
            State::Between => self.between(output),
            State::Call(nesting) => {
                let Some(character) = self.cutter.character() else {
                    return false;
                };
                self.raw.push(character);
                match nesting.feed(character) {
                    Some(false) => {}
                    Some(true) => self.end_call(output),
                    None => self.refuse(output),
                }
                true
            }
            State::Content => {
                let cut = self.cutter.cut(&[END]);
                output.content(&self.gate.pass(&cut.before));
                cut.marker.is_some()
            }
        }
    }

    fn begin(&mut self) -> bool {
        let text = self.cutter.held().trim_start();
        if text.is_empty() || (text.len() < START.len() && START.starts_with(text)) {
            return false;
        }
        if text.starts_with(START) {
            self.cutter.cut(&[START]);
            return true;
        }
        self.state = if text.starts_with('[') {
            self.raw = self.cutter.cut(&["["]).before;
            self.raw.push('[');
            State::Between
        } else {
            State::Content
        };
        true
    }

    fn between(&mut self, output: &mut Output) -> bool {
        let Some(character) = self.cutter.character() else {
            return false;
        };
        self.raw.push(character);
        match character {
            ']' if output.calls > 0 => {
                self.raw.clear();
                self.state = State::Content;
            }
            ',' if output.calls > 0 => {}
            _ if character.is_whitespace() => {}
            _ if is_name(character) => {
                if output.calls > 0 {
                    self.raw = character.to_string();
                }
                self.state = State::Call(Nesting::default());
            }
            _ => self.refuse(output),
        }
        true
    }

    fn end_call(&mut self, output: &mut Output) {
        let text = self.raw.trim_start().trim_start_matches('[');
        match call(text) {
            Some((name, arguments)) => {
                output.call(&name);
                output.arguments(&serde_json::Value::Object(arguments).to_string());
                self.raw.clear();
                self.state = State::Between;
            }
            None => self.refuse(output),
        }
    }

    /// What was read since the last call is content.
    fn refuse(&mut self, output: &mut Output) {
        let raw = std::mem::take(&mut self.raw);
        output.content(&self.gate.pass(&raw));
        self.state = State::Content;
    }

    pub(super) fn flush(&mut self, output: &mut Output) {
        if output.calls == 0 || matches!(self.state, State::Call(_)) {
            self.refuse(output);
        }
        let rest = self.cutter.rest();
        output.content(&self.gate.pass(&rest));
        output.content(&self.gate.space());
    }
}
