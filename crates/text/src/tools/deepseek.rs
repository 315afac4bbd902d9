//! Calls between DeepSeek's marks: V3 names a type, then the function, then arguments in a code
//! fence; V3.1 names the function and writes the arguments plainly.

use super::Output;
use super::json_span::Arguments;
use crate::markers::{Cutter, Gate};

const CALLS_BEGIN: &str = "<｜tool▁calls▁begin｜>";
const CALLS_END: &str = "<｜tool▁calls▁end｜>";
const CALL_BEGIN: &str = "<｜tool▁call▁begin｜>";
const CALL_END: &str = "<｜tool▁call▁end｜>";
const SEPARATOR: &str = "<｜tool▁sep｜>";

#[derive(Clone, Debug, Default)]
pub(super) struct DeepSeek {
    cutter: Cutter,
    gate: Gate,
    state: State,
}

#[derive(Clone, Debug, Default)]
enum State {
    #[default]
    Outside,
    /// Between the marks of single calls.
    Calls,
    /// Before the separator: a type, or the name.
    Header(String),
    /// Behind the separator.
    Separated(String),
    /// A name that ends with its line.
    Name(String),
    Arguments(Arguments),
}

impl DeepSeek {
    pub(super) fn push(&mut self, text: &str, output: &mut Output) {
        self.cutter.push(text);
        while self.step(output) {}
    }

    fn step(&mut self, output: &mut Output) -> bool {
        match &mut self.state {
            State::Outside => {
                let cut = self.cutter.cut(&[CALLS_BEGIN, CALL_BEGIN]);
                output.content(&self.gate.pass(&cut.before));
                let Some(marker) = cut.marker else {
                    return false;
                };
                self.gate.space();
                self.state = if marker == 0 {
                    State::Calls
                } else {
                    State::Header(String::new())
                };
                true
            }
            State::Calls => {
                let cut = self.cutter.cut(&[CALL_BEGIN, CALLS_END]);
                match cut.marker {
                    Some(0) => self.state = State::Header(String::new()),
                    Some(_) => self.state = State::Outside,
                    None => return false,
                }
                true
            }
            State::Header(header) => {
                let cut = self.cutter.cut(&[SEPARATOR]);
                header.push_str(&cut.before);
                if cut.marker.is_some() {
                    self.state = State::Separated(std::mem::take(header));
                }
                cut.marker.is_some()
            }
            State::Separated(header) => {
                if !self.cutter.skip_space() {
                    return false;
                }
                if self.cutter.held().starts_with('{') {
                    output.call(header.trim());
                    self.state = State::Arguments(Arguments::default());
                } else {
                    self.state = State::Name(String::new());
                }
                true
            }
            State::Name(name) => {
                let cut = self.cutter.cut(&["\n", CALL_END]);
                name.push_str(&cut.before);
                let Some(marker) = cut.marker else {
                    return false;
                };
                output.call(name.trim());
                self.state = if marker == 0 {
                    State::Arguments(Arguments::default())
                } else {
                    output.arguments("{}");
                    State::Calls
                };
                true
            }
            State::Arguments(arguments) => {
                let ended = arguments.pass(&mut self.cutter, output);
                if ended {
                    self.state = State::Calls;
                }
                ended
            }
        }
    }

    pub(super) fn flush(&mut self, output: &mut Output) {
        if let State::Outside = self.state {
            let rest = self.cutter.rest();
            output.content(&self.gate.pass(&rest));
            output.content(&self.gate.space());
        }
    }
}
