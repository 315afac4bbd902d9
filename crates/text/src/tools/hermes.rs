//! `<tool_call>{"name": …, "arguments": …}</tool_call>`, as Qwen and Hermes models write.

use super::Output;
use super::object_call::{ObjectCall, Progress};
use crate::markers::{Cutter, Gate};

const START: &str = "<tool_call>";
const END: &str = "</tool_call>";

#[derive(Clone, Debug, Default)]
pub(super) struct Hermes {
    cutter: Cutter,
    gate: Gate,
    state: State,
}

#[derive(Clone, Debug, Default)]
enum State {
    #[default]
    Outside,
    Inside(Box<ObjectCall>),
    /// Behind the object; the end mark, or the next start mark, is to come.
    Closing,
}

impl Hermes {
    pub(super) fn push(&mut self, text: &str, output: &mut Output) {
        self.cutter.push(text);
        while self.step(output) {}
    }

    fn step(&mut self, output: &mut Output) -> bool {
        match &mut self.state {
            State::Outside => {
                let cut = self.cutter.cut(&[START]);
                output.content(&self.gate.pass(&cut.before));
                if cut.marker.is_none() {
                    return false;
                }
                self.state = State::Inside(Box::default());
                true
            }
            State::Inside(call) => match call.read(&mut self.cutter, output) {
                Progress::More => false,
                Progress::Called => {
                    self.gate.space();
                    self.state = State::Closing;
                    true
                }
                Progress::Refused(text) => {
                    self.refuse(&text, output);
                    true
                }
                Progress::Broken => {
                    self.state = State::Closing;
                    true
                }
            },
            State::Closing => {
                let cut = self.cutter.cut(&[END, START]);
                match cut.marker {
                    Some(0) => self.state = State::Outside,
                    Some(_) => self.state = State::Inside(Box::default()),
                    None => return false,
                }
                true
            }
        }
    }

    /// What was taken for a call is content, mark and all.
    fn refuse(&mut self, text: &str, output: &mut Output) {
        output.content(&self.gate.pass(START));
        output.content(&self.gate.pass(text));
        self.state = State::Outside;
    }

    pub(super) fn flush(&mut self, output: &mut Output) {
        if let State::Inside(call) = &mut self.state
            && let Some(unsaid) = call.unsaid()
        {
            self.refuse(&unsaid, output);
        }
        if let State::Outside = self.state {
            let rest = self.cutter.rest();
            output.content(&self.gate.pass(&rest));
            output.content(&self.gate.space());
        }
    }
}
