//! The loop of a thread: sockets are looked at, commands carried out, and between two looks it rests.

use super::exchanges::Exchanges;
use super::worker::{Job, WorkerReport};
use crate::clock::{Clock, Nanos};
use crate::os;
use mio::{Events, Poll, Token};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::mpsc::Receiver;
use std::time::Duration;

pub(super) const WAKE: Token = Token(usize::MAX);
/// With many requests under way, sockets are looked at no more often than this. Arrivals are dated
/// by the kernel, so nothing is measured later for it, and a thread that naps costs little.
const NAP: Duration = Duration::from_micros(500);
const MANY: usize = 16;
/// When what was there took longer than this, more is there already.
const BUSY: Duration = Duration::from_micros(125);
/// Time limits are looked at this often.
const ROUND: Duration = Duration::from_millis(250);

/// What a thread of connections can be told.
pub(super) enum Command {
    Start(Job),
    AbandonAll,
    Quit,
}

/// What there was to be done.
#[derive(PartialEq, Eq)]
enum Obeyed {
    None,
    /// There may be more.
    One,
    Quit,
}

pub(super) struct EventLoop {
    poll: Poll,
    is_waiting: Arc<AtomicBool>,
    inbox: Receiver<Command>,
    clock: Clock,
    exchanges: Exchanges,
}

impl EventLoop {
    pub(super) fn new(
        poll: Poll,
        is_waiting: Arc<AtomicBool>,
        inbox: Receiver<Command>,
        clock: Clock,
        exchanges: Exchanges,
    ) -> Self {
        Self {
            poll,
            is_waiting,
            inbox,
            clock,
            exchanges,
        }
    }

    /// Runs until it is told to quit: what the thread measured.
    pub(super) fn run(mut self) -> WorkerReport {
        os::sharpen_timers();
        let mut events = Events::with_capacity(1024);
        let mut next_round = self.clock.now();
        loop {
            if !self.wait(&mut events) {
                return self.exchanges.report();
            }
            let looked = self.clock.now();
            for event in &events {
                if event.token() == WAKE {
                    continue;
                }
                self.exchanges.ready(event);
                if self.obey_one() == Obeyed::Quit {
                    return self.exchanges.report();
                }
            }
            if !self.nap(looked) {
                return self.exchanges.report();
            }
            let now = self.clock.now();
            if now >= next_round {
                next_round = Nanos(now.0 + ROUND.as_nanos() as u64);
                self.exchanges.enforce_limits(now);
            }
        }
    }

    /// Waits for sockets or commands; `false` when it is time to go.
    fn wait(&mut self, events: &mut Events) -> bool {
        self.exchanges.deliver();
        self.is_waiting.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let longest = match self.obey() {
            Obeyed::Quit => return false,
            Obeyed::One => Duration::ZERO,
            Obeyed::None => ROUND,
        };
        self.exchanges.deliver();
        match self.poll.poll(events, Some(longest)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                panic!("the poll set broke: {error}");
            }
            _ => {}
        }
        self.is_waiting.store(false, Ordering::Relaxed);
        true
    }

    /// Carries out commands until there are none, or for so long that sockets must be looked at.
    fn obey(&mut self) -> Obeyed {
        let end = Nanos(self.clock.now().0 + NAP.as_nanos() as u64);
        loop {
            let obeyed = self.obey_one();
            if obeyed != Obeyed::One || self.clock.now() >= end {
                return obeyed;
            }
        }
    }

    fn obey_one(&mut self) -> Obeyed {
        let Ok(command) = self.inbox.try_recv() else {
            return Obeyed::None;
        };
        if self.carry_out(command) {
            Obeyed::One
        } else {
            Obeyed::Quit
        }
    }

    /// Rests until it is time to look at many sockets again; commands are carried out meanwhile.
    fn nap(&mut self, looked: Nanos) -> bool {
        let busy = self.clock.now().since(looked) > BUSY.as_nanos() as u64;
        if busy || self.exchanges.under_way() < MANY || !self.exchanges.can_wait() {
            return true;
        }
        let end = Nanos(looked.0 + NAP.as_nanos() as u64);
        loop {
            self.exchanges.deliver();
            let left = self.clock.until(end);
            if left.is_zero() {
                return true;
            }
            match self.inbox.recv_timeout(left) {
                Ok(command) => {
                    if !self.carry_out(command) {
                        return false;
                    }
                }
                Err(_) => return true,
            }
        }
    }

    fn carry_out(&mut self, command: Command) -> bool {
        match command {
            Command::Start(job) => self.exchanges.start(job),
            Command::AbandonAll => self.exchanges.abandon_all(),
            Command::Quit => return false,
        }
        true
    }
}
