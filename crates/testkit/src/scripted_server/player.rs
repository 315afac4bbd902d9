//! Carrying out scripts on time.

use super::{Act, Log, Script, Sent, locked};
use mio::Waker;
use mio::net::TcpStream;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// A full send buffer is tried again after this long.
const RETRY: Duration = Duration::from_micros(200);

/// A script to be played on a connection.
pub(super) struct Play {
    pub(super) stream: TcpStream,
    pub(super) script: Script,
    pub(super) number: usize,
    pub(super) received: Instant,
}

pub(super) struct Player {
    stage: Receiver<Play>,
    returns: Sender<TcpStream>,
    intake: Arc<Waker>,
    log: Log,
    plays: BTreeMap<usize, Running>,
    due: BinaryHeap<Reverse<(Instant, usize)>>,
}

struct Running {
    play: Play,
    step: usize,
    written: usize,
}

impl Player {
    pub(super) fn new(
        stage: Receiver<Play>,
        returns: Sender<TcpStream>,
        intake: Arc<Waker>,
        log: Log,
    ) -> Self {
        Self {
            stage,
            returns,
            intake,
            log,
            plays: BTreeMap::new(),
            due: BinaryHeap::new(),
        }
    }

    pub(super) fn run(mut self) {
        loop {
            let next = self.due.peek().map(|Reverse((moment, _))| *moment);
            let wait = next.map_or(Duration::from_hours(1), |moment| {
                moment.saturating_duration_since(Instant::now())
            });
            let received = if wait.is_zero() {
                self.stage.try_recv().map_err(|_| RecvTimeoutError::Timeout)
            } else {
                self.stage.recv_timeout(wait)
            };
            match received {
                Ok(play) => self.begin(play),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = Instant::now();
            while let Some(Reverse((moment, number))) = self.due.peek().copied()
                && moment <= now
            {
                self.due.pop();
                self.act(number);
            }
        }
    }

    fn begin(&mut self, play: Play) {
        let number = play.number;
        if let Some(first) = play.script.steps.first() {
            self.due
                .push(Reverse((play.received + first.after, number)));
        }
        self.plays.insert(
            number,
            Running {
                play,
                step: 0,
                written: 0,
            },
        );
    }

    fn act(&mut self, number: usize) {
        let Some(running) = self.plays.get_mut(&number) else {
            return;
        };
        let Some(step) = running.play.script.steps.get(running.step) else {
            return;
        };
        match &step.act {
            act @ (Act::Send(_) | Act::SendStretch(_)) => {
                let before = Instant::now();
                match write(act, &mut running.play.stream, running.written) {
                    Ok(written) => running.written += written,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(_) => {
                        self.plays.remove(&number);
                        return;
                    }
                }
                if running.written < act.length() {
                    self.due.push(Reverse((before + RETRY, number)));
                    return;
                }
                let sent = Sent {
                    step: running.step,
                    before,
                    after: Instant::now(),
                };
                locked(&self.log)[number].sends.push(sent);
            }
            Act::Close => {
                self.plays.remove(&number);
                return;
            }
            Act::Reset => {
                if let Some(running) = self.plays.remove(&number) {
                    reset(&running.play.stream);
                }
                return;
            }
            Act::Next => {
                if let Some(running) = self.plays.remove(&number) {
                    self.returns.send(running.play.stream).ok();
                    self.intake.wake().ok();
                }
                return;
            }
        }
        running.step += 1;
        running.written = 0;
        if let Some(next) = running.play.script.steps.get(running.step) {
            self.due
                .push(Reverse((running.play.received + next.after, number)));
        }
    }
}

/// Writes what an act has beyond the first `written` bytes: how many could be.
fn write(act: &Act, stream: &mut TcpStream, written: usize) -> io::Result<usize> {
    match act {
        Act::Send(bytes) => stream.write(&bytes[written..]),
        Act::SendStretch(stretch) => stretch.send(stream, written),
        Act::Close | Act::Reset | Act::Next => Ok(0),
    }
}

/// Breaks a connection: with no time to linger, closing it sends a reset.
fn reset(stream: &TcpStream) {
    let Ok(descriptor) = stream.as_fd().try_clone_to_owned() else {
        return;
    };
    let stream = std::net::TcpStream::from(descriptor);
    socket2::SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .ok();
}
