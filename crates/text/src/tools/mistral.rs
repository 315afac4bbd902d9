//! `[TOOL_CALLS]` and a list of calls, or a name and its arguments, as Mistral models write.

use super::Output;
use super::json_span::Arguments;
use super::object_call::{ObjectCall, Progress};
use crate::markers::{Cutter, Gate};

const MARK: &str = "[TOOL_CALLS]";
const CALL_ID: &str = "[CALL_ID]";
const ARGS: &str = "[ARGS]";

#[derive(Clone, Debug, Default)]
pub(super) struct Mistral {
    cutter: Cutter,
    gate: Gate,
    state: State,
}

#[derive(Clone, Debug, Default)]
enum State {
    #[default]
    Outside,
    /// Behind the mark: a list or a name.
    Open,
    /// In a list, between calls.
    List,
    Item(Box<ObjectCall>),
    Name(String),
    /// An id between name and arguments.
    Id,
    Arguments(Arguments),
}

impl Mistral {
    pub(super) fn push(&mut self, text: &str, output: &mut Output) {
        self.cutter.push(text);
        while self.step(output) {}
    }

    fn step(&mut self, output: &mut Output) -> bool {
        match &mut self.state {
            State::Outside => {
                let cut = self.cutter.cut(&[MARK]);
                output.content(&self.gate.pass(&cut.before));
                if cut.marker.is_some() {
                    self.gate.space();
                    self.state = State::Open;
                }
                cut.marker.is_some()
            }
            State::Open => {
                if !self.cutter.skip_space() {
                    return false;
                }
                self.state = if self.cutter.held().starts_with('[') {
                    self.cutter.character();
                    State::List
                } else {
                    State::Name(String::new())
                };
                true
            }
            State::List => self.list(),
            State::Item(call) => match call.read(&mut self.cutter, output) {
                Progress::More => false,
                Progress::Called => {
                    self.state = State::List;
                    true
                }
                Progress::Broken => {
                    self.state = State::Outside;
                    true
                }
                Progress::Refused(text) => {
                    output.content(&text);
                    self.state = State::Outside;
                    true
                }
            },
            State::Name(_) => self.name(output),
            State::Id => {
                let cut = self.cutter.cut(&[ARGS]);
                if cut.marker.is_some() {
                    self.state = State::Arguments(Arguments::default());
                }
                cut.marker.is_some()
            }
            State::Arguments(arguments) => {
                let ended = arguments.pass(&mut self.cutter, output);
                if ended {
                    self.state = State::Outside;
                }
                ended
            }
        }
    }

    fn list(&mut self) -> bool {
        while self.cutter.skip_space() && self.cutter.held().starts_with(',') {
            self.cutter.character();
        }
        if self.cutter.held().is_empty() {
            return false;
        }
        self.state = if self.cutter.held().starts_with('{') {
            State::Item(Box::default())
        } else {
            if self.cutter.held().starts_with(']') {
                self.cutter.character();
            }
            State::Outside
        };
        true
    }

    fn name(&mut self, output: &mut Output) -> bool {
        let State::Name(name) = &mut self.state else {
            return false;
        };
        let cut = self.cutter.cut(&[CALL_ID, ARGS, "{"]);
        name.push_str(&cut.before);
        let Some(marker) = cut.marker else {
            return false;
        };
        output.call(name.trim());
        self.state = match marker {
            0 => State::Id,
            1 => State::Arguments(Arguments::default()),
            _ => {
                self.cutter.put_back('{');
                State::Arguments(Arguments::default())
            }
        };
        true
    }

    pub(super) fn flush(&mut self, output: &mut Output) {
        let rest = self.cutter.rest();
        match &mut self.state {
            State::Item(call) => output.content(&call.unsaid().unwrap_or_default()),
            State::Name(name) => output.content(name),
            State::Outside => output.content(&self.gate.pass(&rest)),
            _ => return,
        }
        output.content(&self.gate.space());
    }
}
