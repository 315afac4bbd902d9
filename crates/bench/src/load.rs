//! The one load loop: rows leave when the pace says so, enter when the gate lets them.

use crate::client::{Client, Errand, Happening};
use crate::clock::Nanos;
use crate::dataset::{Prompt, Row, message};
use crate::pace::{Departure, LoadState, Pace};
use crate::record::{Due, RequestRecord};
use crate::stop::{StopRules, Stopped};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// A load to be put on a server.
pub struct Load<'a> {
    /// What is sent, in order.
    pub rows: &'a [Arc<Row>],
    /// The adapter of each row; empty when there are none.
    pub adapters: &'a [Arc<str>],
    /// When.
    pub pace: Box<dyn Pace>,
    /// How many may be under way at once; the rest wait at the gate.
    pub gate: Option<usize>,
    /// Until.
    pub stop: StopRules,
    /// Whether the rows are sent again after the last of them, until a rule ends the load.
    pub again: bool,
    /// Places that are not sent because an earlier run has their records.
    pub skip: &'a dyn Fn(usize) -> bool,
}

/// The row of a place in a load, whose rows may be sent again and again.
pub(crate) fn row_at(rows: &[Arc<Row>], place: usize) -> &Arc<Row> {
    &rows[place % rows.len()]
}

/// Who looks on while a load lasts.
pub trait Onlooker {
    /// A request is being sent.
    fn sent(&mut self, _row: usize, _round: usize) {}
    /// A request ended.
    fn finished(&mut self, record: &RequestRecord, state: &LoadState);
    /// Called at least this often.
    fn patience(&self) -> Duration;
    /// Time has passed; `waiting` requests stand at the gate.
    fn look(&mut self, state: &LoadState, waiting: usize);
}

/// What a load came to.
#[derive(Debug)]
pub struct LoadOutcome {
    /// One record per request that was sent, in the order of rows and rounds.
    pub records: Vec<RequestRecord>,
    /// When the load began.
    pub started: Nanos,
    /// When its last request ended.
    pub ended: Nanos,
    /// The rule that ended it before its rows did.
    pub stopped: Option<Stopped>,
    /// Whether a person ended it.
    pub interrupted: bool,
}

/// Puts a load on the server that the client speaks to, and waits until it is over.
pub fn run(client: &mut Client, load: Load<'_>, onlooker: &mut dyn Onlooker) -> LoadOutcome {
    let started = client.clock().now();
    let state = LoadState {
        started,
        now: started,
        last_departure: started,
        ..LoadState::default()
    };
    let running = Running {
        client,
        load,
        state,
        next_row: 0,
        waiting: VecDeque::new(),
        under_way: 0,
        histories: BTreeMap::new(),
        records: Vec::new(),
        stopped: None,
        interrupted: false,
    };
    running.run(onlooker)
}

struct Running<'a, 'b> {
    client: &'a mut Client,
    load: Load<'b>,
    state: LoadState,
    next_row: usize,
    /// Rows that are due, and since when.
    waiting: VecDeque<(usize, Nanos)>,
    under_way: usize,
    /// Conversations under way, by row.
    histories: BTreeMap<usize, Vec<Value>>,
    records: Vec<RequestRecord>,
    stopped: Option<Stopped>,
    interrupted: bool,
}

impl Running<'_, '_> {
    fn run(mut self, onlooker: &mut dyn Onlooker) -> LoadOutcome {
        crate::os::sharpen_timers();
        let mut due = self.next_departure();
        loop {
            self.state.now = self.client.clock().now();
            // Without anything to leave or to be let in, no rule has anything to end.
            if (due.is_some() || !self.waiting.is_empty()) && self.ends() {
                due = None;
            }
            while let Some(departure) = due
                && self.is_due(departure)
            {
                self.depart(departure);
                due = self.next_departure();
            }
            self.enter(onlooker);
            if self.under_way == 0 && self.waiting.is_empty() && due.is_none() {
                break;
            }
            self.wait(due, onlooker);
        }
        self.records
            .sort_by_key(|record| (record.row, record.round));
        LoadOutcome {
            started: self.state.started,
            ended: self.state.now,
            records: self.records,
            stopped: self.stopped,
            interrupted: self.interrupted,
        }
    }

    /// Whether no more rows are to leave.
    fn ends(&mut self) -> bool {
        if self.stopped.is_none() {
            self.stopped = self.load.stop.reached(&self.state);
            if self.is_cut_short() {
                self.state.pending -= self.waiting.len();
                self.waiting.clear();
            }
        }
        self.stopped.is_some() || self.interrupted
    }

    /// Whether what was due but not sent is not sent any more.
    fn is_cut_short(&self) -> bool {
        matches!(self.stopped, Some(Stopped::Time | Stopped::Failures))
    }

    /// When the next row is due; nothing when there are no more or the load is to end.
    fn next_departure(&mut self) -> Option<Departure> {
        while self.has_rows() && (self.load.skip)(self.next_row) {
            self.next_row += 1;
        }
        let more = self.has_rows() && !self.ends();
        more.then(|| self.load.pace.next(&self.state))
    }

    fn has_rows(&self) -> bool {
        let rows = self.load.rows.len();
        self.next_row < rows || (self.load.again && rows > 0)
    }

    fn is_due(&self, departure: Departure) -> bool {
        match departure {
            Departure::At(moment) => moment <= self.state.now,
            Departure::WhenFewerThan(limit) => self.state.pending < limit,
        }
    }

    fn depart(&mut self, departure: Departure) {
        let scheduled = match departure {
            Departure::At(moment) => moment,
            Departure::WhenFewerThan(_) => self.state.now,
        };
        self.waiting.push_back((self.next_row, scheduled));
        self.next_row += 1;
        self.state.departed += 1;
        self.state.pending += 1;
        self.state.last_departure = self.state.now;
    }

    /// Lets waiting rows through the gate.
    fn enter(&mut self, onlooker: &mut dyn Onlooker) {
        while self.load.gate.is_none_or(|most| self.under_way < most)
            && let Some((row, scheduled)) = self.waiting.pop_front()
        {
            self.under_way += 1;
            onlooker.sent(row, 0);
            let released = self.client.clock().now();
            self.send(
                row,
                0,
                Due {
                    scheduled,
                    released,
                },
            );
        }
    }

    fn send(&mut self, place: usize, round: usize, due: Due) {
        let row = Arc::clone(row_at(self.load.rows, place));
        let history = match &row.prompt {
            Prompt::Turns(turns) => {
                let history = self.histories.entry(place).or_default();
                history.extend(turns[round].iter().cloned());
                Some(Arc::from(history.as_slice()))
            }
            _ => None,
        };
        let output_tokens = row.asked.output_tokens;
        let adapters = self.load.adapters;
        let adapter = (!adapters.is_empty()).then(|| Arc::clone(&adapters[place % adapters.len()]));
        let row = (place, row);
        self.client.send(Errand {
            row,
            round,
            due,
            output_tokens,
            adapter,
            history,
        });
    }

    fn wait(&mut self, due: Option<Departure>, onlooker: &mut dyn Onlooker) {
        let mut longest = onlooker.patience();
        if let Some(Departure::At(moment)) = due {
            longest = longest.min(self.client.clock().until(moment));
        }
        if let (Some(seconds), true) = (
            self.load.stop.seconds,
            due.is_some() || !self.waiting.is_empty(),
        ) {
            let end = self.state.started.plus_seconds(seconds);
            longest = longest.min(self.client.clock().until(end));
        }
        match self.client.wait(longest) {
            Happening::Finished(records) => {
                for record in records {
                    self.finished(record, onlooker);
                }
            }
            Happening::Interrupted => {
                self.interrupted = true;
                self.state.pending -= self.waiting.len();
                self.waiting.clear();
                self.client.abandon_all();
            }
            Happening::Nothing => {
                self.state.now = self.client.clock().now();
                onlooker.look(&self.state, self.waiting.len());
            }
        }
    }

    fn finished(&mut self, record: RequestRecord, onlooker: &mut dyn Onlooker) {
        self.state.now = self.client.clock().now();
        let (place, next_round) = (record.row, record.round + 1);
        let rounds = row_at(self.load.rows, place).rounds();
        let more = next_round < rounds && !self.interrupted && !self.is_cut_short();
        if more {
            let history = self.histories.entry(place).or_default();
            history.push(message("assistant", &record.text));
            onlooker.sent(place, next_round);
            self.send(place, next_round, Due::at(self.state.now));
        } else {
            self.histories.remove(&place);
            self.under_way -= 1;
            self.state.pending -= 1;
        }
        self.state.finished += 1;
        self.state.failed += usize::from(!record.succeeded());
        onlooker.finished(&record, &self.state);
        self.records.push(record);
    }
}
