//! One thread of connections.

use super::connection::{Connection, Ending, words};
use crate::client::answer::Dialect;
use crate::client::lag::Lags;
use crate::client::tls::{Identity, Session};
use crate::clock::{Clock, Nanos, WallOffset};
use crate::os;
use crate::record::{Asked, Due, Failure, RequestRecord};
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token, Waker};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

const WAKE: Token = Token(usize::MAX);
const BUFFER: usize = 256 * 1024;
/// A server that sends a whole answer at once is not held up while other sockets are read.
const INBOX: u32 = 512 * 1024;
/// With many requests under way, sockets are looked at no more often than this. Arrivals are dated
/// by the kernel, so nothing is measured later for it, and a thread that naps costs little.
const NAP: Duration = Duration::from_micros(500);
const MANY: usize = 16;
/// When what was there took longer than this, more is there already.
const BUSY: Duration = Duration::from_micros(125);
/// A load is told of requests that ended close to each other at once, none later than this.
const HOLD: Duration = Duration::from_micros(250);
/// Time limits are looked at this often.
const ROUND: Duration = Duration::from_millis(250);

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

enum Command {
    Start(Job),
    AbandonAll,
    Quit,
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
        let reactor = Reactor {
            poll,
            is_waiting: Arc::clone(&is_waiting),
            inbox,
            notes,
            ended: Vec::new(),
            first_ended: Nanos(0),
            clock,
            tokens,
            wall: WallOffset::measure(clock),
            places: Vec::new(),
            free: Vec::new(),
            handshakes: 0,
            buffer: vec![0; BUFFER].into_boxed_slice(),
            report: WorkerReport::default(),
            _keeps_stamping: keeps_stamping()?,
        };
        let thread = std::thread::Builder::new()
            .name("bench-worker".to_owned())
            .spawn(move || reactor.run())?;
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

/// A connection and the request it carries.
struct Place {
    connection: Connection,
    /// What is known before the answer.
    record: RequestRecord,
    deadline: Nanos,
    time_limit: Duration,
}

/// What there was to be done.
#[derive(PartialEq, Eq)]
enum Obeyed {
    None,
    /// There may be more.
    One,
    Quit,
}

struct Reactor {
    poll: Poll,
    is_waiting: Arc<AtomicBool>,
    inbox: Receiver<Command>,
    notes: Sender<Note>,
    /// Requests that ended and have not been told of.
    ended: Vec<RequestRecord>,
    /// When the first of them did.
    first_ended: Nanos,
    clock: Clock,
    /// All tokens received by all workers, for those who look on.
    tokens: Arc<AtomicU64>,
    wall: WallOffset,
    places: Vec<Option<Place>>,
    free: Vec<usize>,
    /// How many connections wait for the next flight of their handshake.
    handshakes: usize,
    buffer: Box<[u8]>,
    report: WorkerReport,
    /// The kernel stamps while a socket asks for it, and takes a moment to begin.
    _keeps_stamping: UdpSocket,
}

fn keeps_stamping() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    // A kernel that refuses leaves reads unstamped, which is counted.
    os::stamp_arrivals(&socket).ok();
    Ok(socket)
}

impl Reactor {
    fn run(mut self) -> WorkerReport {
        os::sharpen_timers();
        let mut events = Events::with_capacity(1024);
        let mut next_round = self.clock.now();
        loop {
            if !self.wait(&mut events) {
                return self.report;
            }
            let looked = self.clock.now();
            for event in &events {
                if event.token() == WAKE {
                    continue;
                }
                self.ready(event);
                if self.obey_one() == Obeyed::Quit {
                    return self.report;
                }
            }
            if !self.nap(looked) {
                return self.report;
            }
            let now = self.clock.now();
            if now >= next_round {
                next_round = Nanos(now.0 + ROUND.as_nanos() as u64);
                self.enforce_limits(now);
            }
        }
    }

    /// Waits for sockets or commands; `false` when it is time to go.
    fn wait(&mut self, events: &mut Events) -> bool {
        self.deliver();
        self.is_waiting.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let longest = match self.obey() {
            Obeyed::Quit => return false,
            Obeyed::One => Duration::ZERO,
            Obeyed::None => ROUND,
        };
        self.deliver();
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
        let under_way = self.places.len() - self.free.len();
        let busy = self.clock.now().since(looked) > BUSY.as_nanos() as u64;
        // Arrivals are dated by the kernel, but a handshake is answered no sooner than it is read.
        let greeting = self.handshakes > 0;
        if under_way < MANY || busy || greeting || self.report.unstamped > 0 {
            return true;
        }
        let end = Nanos(looked.0 + NAP.as_nanos() as u64);
        loop {
            self.deliver();
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
            Command::Start(job) => self.start(job),
            Command::AbandonAll => {
                for place in 0..self.places.len() {
                    self.end(place, Some(Failure::Abandoned));
                }
            }
            Command::Quit => return false,
        }
        true
    }

    fn start(&mut self, job: Job) {
        let request = (job.request)();
        let session = job.identity.as_ref().map(Session::begin).map(Box::new);
        let sent = self.clock.now();
        let mut record = RequestRecord::begun(job.row, job.round, job.due, sent, job.asked);
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        match self.open(place, job.address) {
            Ok(stream) => {
                self.handshakes += usize::from(session.is_some());
                self.places[place] = Some(Place {
                    connection: Connection::new((stream, session), job.dialect, request, sent),
                    record,
                    deadline: Nanos(sent.0.saturating_add(job.time_limit.as_nanos() as u64)),
                    time_limit: job.time_limit,
                });
                self.write(place);
            }
            Err(error) => {
                self.free.push(place);
                record.finished = self.clock.now();
                record.failure = Some(Failure::Connect {
                    reason: words(&error),
                });
                self.tell(record);
            }
        }
    }

    fn open(&mut self, place: usize, address: SocketAddr) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        os::stamp_arrivals(&stream).ok();
        os::widen_inbox(&stream, INBOX).ok();
        let both = Interest::READABLE | Interest::WRITABLE;
        self.poll
            .registry()
            .register(&mut stream, Token(place), both)?;
        Ok(stream)
    }

    fn ready(&mut self, event: &Event) {
        let place = event.token().0;
        let Some(Some(held)) = self.places.get(place) else {
            return;
        };
        if event.is_writable() && held.connection.is_writing() && !self.write(place) {
            return;
        }
        let connected = |held: &Place| held.connection.is_connected();
        if event.is_readable() && self.places[place].as_ref().is_some_and(connected) {
            match self.read(place, event.is_read_closed()) {
                Ok(true) => self.end(place, None),
                Ok(false) => {}
                Err(failure) => self.end(place, Some(failure)),
            }
        }
    }

    /// Sends what can be sent, at once where the connection stands already; whether it still lives.
    fn write(&mut self, place: usize) -> bool {
        let Some(held) = &mut self.places[place] else {
            return false;
        };
        match held.connection.writable(self.clock.now()) {
            Ok(()) => true,
            Err(failure) => {
                self.end(place, Some(failure));
                false
            }
        }
    }

    /// Reads until the socket is drained; whether the answer is whole.
    ///
    /// A short read drains a stream socket, so the call that would say so is saved, unless the end
    /// of the stream is known to lie behind the data.
    fn read(&mut self, place: usize, closing: bool) -> Result<bool, Failure> {
        let Some(Some(held)) = self.places.get_mut(place) else {
            return Ok(false);
        };
        let connection = &mut held.connection;
        let before = connection.tokens();
        loop {
            let (length, stamp) = match os::receive(&connection.stream, &mut self.buffer) {
                Ok((0, _)) => return connection.closed().map(|()| true),
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(Failure::Lost {
                        reason: words(&error),
                    });
                }
            };
            let now = self.clock.now();
            let at = match stamp {
                Some(wall) => self.wall.arrival(wall, now).max(connection.times.newest),
                None => now,
            };
            self.report.unstamped += u64::from(stamp.is_none());
            self.report.lag.record(now.since(at));
            let greeted = connection.is_handshaking();
            let received = connection.received(&self.buffer[..length], at);
            self.handshakes -= usize::from(greeted && !connection.is_handshaking());
            let complete = received?;
            if complete || (length < self.buffer.len() && !closing) {
                let new = connection.tokens().saturating_sub(before);
                self.tokens.fetch_add(new, Ordering::Relaxed);
                return Ok(complete);
            }
        }
    }

    fn enforce_limits(&mut self, now: Nanos) {
        for place in 0..self.places.len() {
            let Some(held) = &self.places[place] else {
                continue;
            };
            if now >= held.deadline {
                let seconds = held.time_limit.as_secs();
                self.end(place, Some(Failure::Timeout { seconds }));
            }
        }
    }

    /// Ends the request at a place and tells of it.
    fn end(&mut self, place: usize, over: Option<Failure>) {
        let Some(held) = self.places[place].take() else {
            return;
        };
        self.free.push(place);
        let now = self.clock.now();
        self.handshakes -= usize::from(held.connection.is_handshaking());
        let (times, Ending { answer, failure }) = held.connection.end(over);
        let finished = match (&failure, answer.last_line) {
            (None, Some(last)) => last,
            _ => now,
        };
        self.tell(RequestRecord {
            connected: times.connected,
            first_byte: times.first_byte,
            chunks: answer.chunks,
            finished,
            usage: answer.usage,
            text: answer.text,
            failure,
            ..held.record
        });
    }

    /// Tells of a request that ended, together with others that end soon.
    fn tell(&mut self, record: RequestRecord) {
        let now = self.clock.now();
        if self.ended.is_empty() {
            self.first_ended = now;
        }
        self.ended.push(record);
        if now.since(self.first_ended) > HOLD.as_nanos() as u64 {
            self.deliver();
        }
    }

    fn deliver(&mut self) {
        if !self.ended.is_empty() {
            // A load that ended early no longer listens; its requests are of no interest.
            let ended = std::mem::take(&mut self.ended);
            self.notes.send(Note::Finished(ended)).ok();
        }
    }
}
