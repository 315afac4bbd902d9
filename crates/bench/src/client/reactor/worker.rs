//! A handle to one thread of connections.

use super::endings::Endings;
use super::event_loop::{Command, EventLoop, WAKE};
use super::exchanges::Exchanges;
use crate::client::answer::Dialect;
use crate::client::lag::Lags;
use crate::client::tls::Identity;
use crate::clock::Clock;
use crate::record::{Asked, Due, RequestRecord};
use mio::{Poll, Waker};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// One request to be made now.
pub(crate) struct Job {
    pub(crate) row: usize,
    pub(crate) round: usize,
    pub(crate) due: Due,
    pub(crate) asked: Asked,
    pub(crate) address: SocketAddr,
    pub(crate) identity: Option<Identity>,
    pub(crate) dialect: Dialect,
    /// Makes the bytes to send; called on the worker's thread, before the request's clock starts.
    pub(crate) request: Box<dyn FnOnce() -> Vec<u8> + Send>,
    pub(crate) time_limit: Duration,
}

/// What a load is told while it lasts.
pub(crate) enum Note {
    /// Requests ended, well or not.
    Finished(Vec<RequestRecord>),
    /// A person wants the run to end.
    Interrupted,
}

/// What a worker measured about itself.
#[derive(Debug, Default)]
pub(crate) struct WorkerReport {
    /// Nanoseconds from arrival in the kernel to being read, one value per read.
    pub(crate) lag: Lags,
    /// Reads that the kernel had not stamped; they are dated when read.
    pub(crate) unstamped: u64,
}

/// A handle to one thread of connections; dropping it abandons what is under way.
pub(crate) struct Worker {
    commands: Sender<Command>,
    waker: Arc<Waker>,
    /// Whether the thread waits for sockets, so that a command has to wake it.
    is_waiting: Arc<AtomicBool>,
    thread: Option<JoinHandle<WorkerReport>>,
}

impl Worker {
    /// Starts a thread that tells `notes` about every request it was given.
    pub(crate) fn start(
        clock: Clock,
        notes: Sender<Note>,
        tokens: Arc<AtomicU64>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
        let is_waiting = Arc::new(AtomicBool::new(false));
        let (commands, inbox) = channel();
        let endings = Endings::told_to(notes, clock);
        let exchanges = Exchanges::new(poll.registry().try_clone()?, clock, tokens, endings)?;
        let event_loop = EventLoop::new(poll, Arc::clone(&is_waiting), inbox, clock, exchanges);
        let thread = std::thread::Builder::new()
            .name("bench-worker".to_owned())
            .spawn(move || event_loop.run())?;
        Ok(Self {
            commands,
            waker,
            is_waiting,
            thread: Some(thread),
        })
    }

    /// Makes a request.
    pub(crate) fn request(&self, job: Job) {
        self.command(Command::Start(job));
    }

    /// Ends all requests under way; each is told of as abandoned.
    pub(crate) fn abandon_all(&self) {
        self.command(Command::AbandonAll);
    }

    /// Ends the thread: what it measured.
    pub(crate) fn finish(mut self) -> WorkerReport {
        self.command(Command::Quit);
        let thread = self.thread.take().expect("a worker is finished once");
        thread.join().expect("the worker thread does not panic")
    }

    fn command(&self, command: Command) {
        self.commands
            .send(command)
            .expect("the worker lives as long as its handle");
        // Either this sees that the thread waits, or the thread saw the command before it did.
        fence(Ordering::SeqCst);
        if self.is_waiting.swap(false, Ordering::Relaxed) {
            self.waker
                .wake()
                .expect("an event descriptor can be written to");
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.command(Command::Quit);
            thread.join().expect("the worker thread does not panic");
        }
    }
}
