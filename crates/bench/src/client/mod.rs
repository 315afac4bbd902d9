//! The client: requests worded, sent, and their answers dated as they arrive.
//!
//! [`Client`] keeps a few threads of connections. It decides nothing: when to send is the business
//! of a pace, what to send that of a dataset.

mod answer;
mod backend;
mod connect;
mod control;
mod http1;
mod lag;
mod manner;
mod reactor;
mod tls;
mod wire;

pub use backend::{BACKENDS, Backend, Family};
pub use control::{Control, ControlError, Reply};
pub use http1::{Url, UrlError, read_answer};
pub use lag::Lags;
pub use manner::{Extras, Manner, Sampling, Wording};
pub use tls::{Trust, TrustError};

use crate::clock::Clock;
use crate::dataset::Row;
use crate::record::{Due, RequestRecord};
use manner::Ask;
use reactor::{Job, Note, Worker};
use serde_json::Value;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use tls::Identity;

/// The reference waits six hours for an answer.
pub const USUAL_TIME_LIMIT: Duration = Duration::from_hours(6);

/// Threads of connections to one server.
pub struct Client {
    manner: Arc<Manner>,
    address: SocketAddr,
    identity: Option<Identity>,
    clock: Clock,
    workers: Vec<Worker>,
    next_worker: usize,
    notes: Receiver<Note>,
    sender: Sender<Note>,
    time_limit: Duration,
    tokens: Arc<AtomicU64>,
}

/// One request to make now.
#[derive(Clone, Debug)]
pub struct Errand {
    /// The row and its place in the dataset.
    pub row: (usize, Arc<Row>),
    /// The turn of a conversation.
    pub round: usize,
    /// When it was due and let go.
    pub due: Due,
    /// How many tokens to ask for.
    pub output_tokens: u64,
    /// The adapter to use.
    pub adapter: Option<Arc<str>>,
    /// The conversation so far, this turn's messages included.
    pub history: Option<Arc<[Value]>>,
}

/// What happened at the client.
#[derive(Debug)]
pub enum Happening {
    /// Requests ended, well or not.
    Finished(Vec<RequestRecord>),
    /// A person wants the run to end.
    Interrupted,
    /// Nothing, for as long as one was willing to wait.
    Nothing,
}

/// How the client itself did.
#[derive(Clone, Debug, Default)]
pub struct OwnBehaviour {
    /// Nanoseconds from the arrival of data in the kernel to its being read.
    pub read_lag: Lags,
    /// Reads that the kernel had not stamped; they are dated when read.
    pub unstamped: u64,
}

/// A handle by which another thread ends a run.
#[derive(Clone)]
pub struct Interrupter {
    sender: Sender<Note>,
}

impl Interrupter {
    /// Asks the load to stop; without effect when it is over.
    pub fn interrupt(&self) {
        self.sender.send(Note::Interrupted).ok();
    }
}

impl Client {
    /// Starts the threads; the server is not spoken to yet.
    pub fn start(manner: Manner, threads: usize, time_limit: Duration) -> io::Result<Self> {
        let address = connect::resolve(&manner.base)?;
        let identity = manner.trust.identity(&manner.base);
        let clock = Clock::start();
        let (sender, notes) = channel();
        let tokens = Arc::new(AtomicU64::new(0));
        let workers = (0..threads.max(1))
            .map(|_| Worker::start(clock, sender.clone(), Arc::clone(&tokens)))
            .collect::<io::Result<_>>()?;
        let manner = Arc::new(manner);
        Ok(Self {
            manner,
            address,
            identity,
            clock,
            workers,
            next_worker: 0,
            notes,
            sender,
            time_limit,
            tokens,
        })
    }

    /// The clock of all records.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// How requests are worded.
    pub fn manner(&self) -> &Manner {
        &self.manner
    }

    /// The tokens received so far, kept up to date by the threads of connections.
    pub fn tokens(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.tokens)
    }

    /// A handle that ends the run from another thread.
    pub fn interrupter(&self) -> Interrupter {
        Interrupter {
            sender: self.sender.clone(),
        }
    }

    /// Makes a request; its end is told by [`wait`](Self::wait).
    pub fn send(&mut self, errand: Errand) {
        let worker = self.next_worker;
        self.next_worker = (worker + 1) % self.workers.len();
        let manner = Arc::clone(&self.manner);
        let (place, row) = errand.row;
        let mut asked = row.asked;
        asked.output_tokens = errand.output_tokens;
        let (adapter, history) = (errand.adapter, errand.history);
        let request = move || {
            manner.request(&Ask {
                row: &row,
                output_tokens: errand.output_tokens,
                adapter: adapter.as_deref(),
                history: history.as_deref(),
            })
        };
        self.workers[worker].request(Job {
            row: place,
            round: errand.round,
            due: errand.due,
            asked,
            address: self.address,
            identity: self.identity.clone(),
            dialect: self.manner.backend.dialect(self.manner.stream),
            request: Box::new(request),
            time_limit: self.time_limit,
        });
    }

    /// Waits for the next happening, for no longer than this.
    pub fn wait(&self, longest: Duration) -> Happening {
        match self.notes.recv_timeout(longest) {
            Ok(Note::Finished(records)) => Happening::Finished(records),
            Ok(Note::Interrupted) => Happening::Interrupted,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Happening::Nothing,
        }
    }

    /// Ends everything under way; each request is still told of, as abandoned.
    pub fn abandon_all(&self) {
        for worker in &self.workers {
            worker.abandon_all();
        }
    }

    /// Ends the threads: how they did.
    pub fn finish(self) -> OwnBehaviour {
        let mut reports = self.workers.into_iter().map(Worker::finish);
        let first = reports.next().expect("a client has a worker");
        reports.fold(
            OwnBehaviour {
                read_lag: first.lag,
                unstamped: first.unstamped,
            },
            |mut all, report| {
                all.read_lag.add(&report.lag);
                all.unstamped += report.unstamped;
                all
            },
        )
    }
}

/// The record of a request whose answer's lines arrived at these moments.
#[cfg(test)]
pub(crate) fn replay_answer(
    begun: &RequestRecord,
    backend: Backend,
    lines: &[(u64, String)],
) -> RequestRecord {
    let mut reader = answer::AnswerReader::new(backend.dialect(true));
    let mut now = begun.sent;
    for (at, line) in lines {
        now = crate::clock::Nanos(*at);
        let pieces = [line.as_bytes(), b"\n"].map(Ok);
        reader
            .push(pieces.into_iter(), now)
            .expect("the log is well formed");
    }
    let (answer, failure) = reader.finish(now);
    RequestRecord {
        chunks: answer.chunks,
        finished: answer.last_line.unwrap_or(now),
        usage: answer.usage,
        text: answer.text,
        tool_calls: answer.tool_calls,
        failure,
        ..begun.clone()
    }
}
