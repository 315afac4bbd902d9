//! Reasoning between two tags, at the beginning of a text.

use super::Events;
use crate::markers::{Cutter, Gate};

#[derive(Clone, Debug)]
pub(super) struct Tags {
    start: &'static str,
    end: &'static str,
    state: State,
    cutter: Cutter,
    gate: Gate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No tag has been seen; a start tag may come.
    Before,
    /// Inside, and nothing but white space has been seen; a start tag may repeat what the prompt said.
    Entering,
    Inside,
    /// Behind the end tag, and nothing but white space has been seen.
    Leaving,
    /// Behind reasoning for good.
    After,
}

impl Tags {
    pub(super) fn new(start: &'static str, end: &'static str, inside: bool) -> Self {
        let state = if inside {
            State::Entering
        } else {
            State::Before
        };
        Self {
            start,
            end,
            state,
            cutter: Cutter::default(),
            gate: Gate::default(),
        }
    }

    pub(super) fn push(&mut self, text: &str, events: &mut Events) {
        self.cutter.push(text);
        while self.step(events) {}
    }

    /// Goes one state further if it can.
    fn step(&mut self, events: &mut Events) -> bool {
        match self.state {
            State::Before => {
                let cut = self.cutter.cut(&[self.start]);
                events.content(&self.gate.pass(&cut.before));
                if cut.marker.is_some() {
                    self.gate.space();
                    self.state = State::Entering;
                }
                cut.marker.is_some()
            }
            State::Entering => {
                if !self.cutter.skip_space() {
                    return false;
                }
                if self.cutter.held().starts_with(self.start) {
                    self.cutter.cut(&[self.start]);
                } else if self.start.starts_with(self.cutter.held()) {
                    return false;
                } else {
                    self.state = State::Inside;
                }
                true
            }
            State::Inside => {
                let cut = self.cutter.cut(&[self.end]);
                events.reasoning(&self.gate.pass(&cut.before));
                if cut.marker.is_some() {
                    self.gate.space();
                    self.state = State::Leaving;
                }
                cut.marker.is_some()
            }
            State::Leaving => {
                let more = self.cutter.skip_space();
                if more {
                    self.state = State::After;
                }
                more
            }
            State::After => {
                events.content(&self.cutter.rest());
                false
            }
        }
    }

    pub(super) fn flush(&mut self, events: &mut Events) {
        let rest = self.cutter.rest();
        match self.state {
            State::Before => {
                events.content(&self.gate.pass(&rest));
                events.content(&self.gate.space());
            }
            State::Entering | State::Inside => events.reasoning(&self.gate.pass(&rest)),
            State::Leaving | State::After => events.content(&rest),
        }
    }
}
