//! `<|python_tag|>{"name": …, "parameters": …}`, as Llama 3 writes; often without the mark.

use super::Output;
use super::object_call::{ObjectCall, Progress};
use crate::markers::{Cutter, Gate};

const MARK: &str = "<|python_tag|>";

#[derive(Clone, Debug, Default)]
pub(super) struct Llama3 {
    cutter: Cutter,
    gate: Gate,
    state: State,
}

#[derive(Clone, Debug, Default)]
enum State {
    /// A call may come without a mark.
    #[default]
    Begin,
    /// Behind the mark or a call: a call is expected, perhaps after a semicolon.
    Expect,
    Call(Box<ObjectCall>),
    Content,
}

impl Llama3 {
    pub(super) fn push(&mut self, text: &str, output: &mut Output) {
        self.cutter.push(text);
        while self.step(output) {}
    }

    fn step(&mut self, output: &mut Output) -> bool {
        match &mut self.state {
            State::Begin | State::Expect => self.begin(),
            State::Call(call) => match call.read(&mut self.cutter, output) {
                Progress::More => false,
                Progress::Called => {
                    self.gate.space();
                    self.state = State::Expect;
                    true
                }
                Progress::Broken => {
                    self.state = State::Content;
                    true
                }
                Progress::Refused(text) => {
                    output.content(&self.gate.pass(&text));
                    self.state = State::Content;
                    true
                }
            },
            State::Content => {
                let cut = self.cutter.cut(&[MARK]);
                output.content(&self.gate.pass(&cut.before));
                if cut.marker.is_some() {
                    self.state = State::Expect;
                }
                cut.marker.is_some()
            }
        }
    }

    /// Decides what the next characters are, once there are enough of them.
    fn begin(&mut self) -> bool {
        let between = |character: char| character.is_whitespace() || character == ';';
        let text = match self.state {
            State::Expect => self.cutter.held().trim_start_matches(between),
            _ => self.cutter.held().trim_start(),
        };
        if text.is_empty() || (text.len() < MARK.len() && MARK.starts_with(text)) {
            return false;
        }
        if text.starts_with('{') {
            while !self.cutter.held().starts_with('{') {
                self.cutter.character();
            }
            self.state = State::Call(Box::default());
        } else if text.starts_with(MARK) {
            self.cutter.cut(&[MARK]);
            self.state = State::Expect;
        } else {
            self.state = State::Content;
        }
        true
    }

    pub(super) fn flush(&mut self, output: &mut Output) {
        if let State::Call(call) = &mut self.state {
            let unsaid = call.unsaid().unwrap_or_default();
            output.content(&self.gate.pass(&unsaid));
        }
        let rest = self.cutter.rest();
        if !matches!(self.state, State::Expect) || !rest.trim().is_empty() {
            output.content(&self.gate.pass(&rest));
            output.content(&self.gate.space());
        }
    }
}
