//! Requests that ended, told of together.

use super::worker::Note;
use crate::clock::{Clock, Nanos};
use crate::record::RequestRecord;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// A load is told of requests that ended close to each other at once, none later than this.
const HOLD: Duration = Duration::from_micros(250);

pub(super) struct Endings {
    notes: Sender<Note>,
    clock: Clock,
    /// Requests that have not been told of.
    held: Vec<RequestRecord>,
    /// When the first of them ended.
    first: Nanos,
}

impl Endings {
    pub(super) fn told_to(notes: Sender<Note>, clock: Clock) -> Self {
        Self {
            notes,
            clock,
            held: Vec::new(),
            first: Nanos(0),
        }
    }

    /// Tells of a request that ended, together with others that end soon.
    pub(super) fn tell(&mut self, record: RequestRecord) {
        let now = self.clock.now();
        if self.held.is_empty() {
            self.first = now;
        }
        self.held.push(record);
        if now.since(self.first) > HOLD.as_nanos() as u64 {
            self.deliver();
        }
    }

    /// Tells of all that are held.
    pub(super) fn deliver(&mut self) {
        if !self.held.is_empty() {
            // A load that ended early no longer listens; its requests are of no interest.
            let ended = std::mem::take(&mut self.held);
            self.notes.send(Note::Finished(ended)).ok();
        }
    }
}
