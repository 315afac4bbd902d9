//! The harmony format: messages with a header that names a channel and perhaps a recipient.

use super::Events;
use crate::markers::Cutter;

const CHANNEL: &str = "<|channel|>";
const MESSAGE: &str = "<|message|>";
const START: &str = "<|start|>";
const ENDS: [&str; 3] = ["<|end|>", "<|return|>", "<|call|>"];

#[derive(Clone, Debug, Default)]
pub(super) struct Harmony {
    cutter: Cutter,
    state: State,
}

#[derive(Clone, Debug, Default)]
enum State {
    /// Between messages; text here belongs to nobody and is the answer of a model that forgot the format.
    #[default]
    Outside,
    /// The role that follows `<|start|>`.
    Role,
    /// The header that follows `<|channel|>`.
    Header(String),
    /// The body of a message of this kind.
    Body(Kind),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Reasoning,
    Answer,
    /// Sent to a tool: passed on with its marks, for the tool parser.
    Call,
}

impl Kind {
    fn of(header: &str) -> Self {
        match header.split_whitespace().next() {
            _ if header.contains("to=") => Self::Call,
            Some("analysis") => Self::Reasoning,
            _ => Self::Answer,
        }
    }
}

impl Harmony {
    pub(super) fn push(&mut self, text: &str, events: &mut Events) {
        self.cutter.push(text);
        while self.step(events) {}
    }

    fn step(&mut self, events: &mut Events) -> bool {
        match &mut self.state {
            State::Outside => {
                let marks = [START, CHANNEL, ENDS[0], ENDS[1], ENDS[2]];
                let cut = self.cutter.cut(&marks);
                events.content(&cut.before);
                match cut.marker {
                    Some(0) => self.state = State::Role,
                    Some(1) => self.state = State::Header(String::new()),
                    Some(_) => {}
                    None => return false,
                }
                true
            }
            State::Role => {
                let cut = self.cutter.cut(&[CHANNEL, MESSAGE]);
                match cut.marker {
                    Some(0) => self.state = State::Header(String::new()),
                    Some(_) => self.state = State::Body(Kind::Answer),
                    None => return false,
                }
                true
            }
            State::Header(header) => {
                let cut = self.cutter.cut(&[MESSAGE]);
                header.push_str(&cut.before);
                if cut.marker.is_none() {
                    return false;
                }
                let kind = Kind::of(header);
                if kind == Kind::Call {
                    events.content(CHANNEL);
                    events.content(header);
                    events.content(MESSAGE);
                }
                self.state = State::Body(kind);
                true
            }
            State::Body(kind) => {
                let cut = self.cutter.cut(&ENDS);
                match kind {
                    Kind::Reasoning => events.reasoning(&cut.before),
                    Kind::Answer | Kind::Call => events.content(&cut.before),
                }
                let Some(end) = cut.marker else { return false };
                if *kind == Kind::Call {
                    events.content(ENDS[end]);
                }
                self.state = State::Outside;
                true
            }
        }
    }

    pub(super) fn flush(&mut self, events: &mut Events) {
        let rest = self.cutter.rest();
        match &self.state {
            State::Body(Kind::Reasoning) => events.reasoning(&rest),
            State::Body(_) | State::Outside => events.content(&rest),
            State::Role | State::Header(_) => {}
        }
    }
}
