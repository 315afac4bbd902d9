//! The requests under way on a thread: their connections opened, read, written and ended.

use super::connection::{Connection, Ending, words};
use super::endings::Endings;
use super::worker::{Job, WorkerReport};
use crate::client::tls::Session;
use crate::clock::{Clock, Nanos, WallOffset};
use crate::os;
use crate::record::{Failure, RequestRecord};
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const BUFFER: usize = 256 * 1024;
/// A server that sends a whole answer at once is not held up while other sockets are read.
const INBOX: u32 = 512 * 1024;

/// A connection and the request it carries.
struct Place {
    connection: Connection,
    /// What is known before the answer.
    record: RequestRecord,
    deadline: Nanos,
    time_limit: Duration,
}

pub(super) struct Exchanges {
    registry: Registry,
    clock: Clock,
    /// All tokens received by all workers, for those who look on.
    tokens: Arc<AtomicU64>,
    wall: WallOffset,
    places: Vec<Option<Place>>,
    free: Vec<usize>,
    /// How many connections wait for the next flight of their handshake.
    handshakes: usize,
    buffer: Box<[u8]>,
    /// What the newest read came to where it was encrypted.
    plain: Vec<u8>,
    endings: Endings,
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

impl Exchanges {
    pub(super) fn new(
        registry: Registry,
        clock: Clock,
        tokens: Arc<AtomicU64>,
        endings: Endings,
    ) -> io::Result<Self> {
        Ok(Self {
            registry,
            clock,
            tokens,
            wall: WallOffset::measure(clock),
            places: Vec::new(),
            free: Vec::new(),
            handshakes: 0,
            buffer: vec![0; BUFFER].into_boxed_slice(),
            plain: Vec::new(),
            endings,
            report: WorkerReport::default(),
            _keeps_stamping: keeps_stamping()?,
        })
    }

    /// How many there are.
    pub(super) fn under_way(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether nothing is lost when sockets are read a little later than they could be.
    pub(super) fn can_wait(&self) -> bool {
        // Arrivals are dated by the kernel, but a handshake is answered no sooner than it is read.
        self.handshakes == 0 && self.report.unstamped == 0
    }

    /// What was measured.
    pub(super) fn report(self) -> WorkerReport {
        self.report
    }

    /// Tells of all that ended.
    pub(super) fn deliver(&mut self) {
        self.endings.deliver();
    }

    /// Ends all of them.
    pub(super) fn abandon_all(&mut self) {
        for place in 0..self.places.len() {
            self.end(place, Some(Failure::Abandoned));
        }
    }

    /// Makes a request.
    pub(super) fn start(&mut self, job: Job) {
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
                self.endings.tell(record);
            }
        }
    }

    fn open(&mut self, place: usize, address: SocketAddr) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        os::stamp_arrivals(&stream).ok();
        os::widen_inbox(&stream, INBOX).ok();
        let both = Interest::READABLE | Interest::WRITABLE;
        self.registry.register(&mut stream, Token(place), both)?;
        Ok(stream)
    }

    /// Carries on where a socket can be written or read.
    pub(super) fn ready(&mut self, event: &Event) {
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
            let received = connection.received(&self.buffer[..length], &mut self.plain, at);
            self.handshakes -= usize::from(greeted && !connection.is_handshaking());
            let complete = received?;
            if complete || (length < self.buffer.len() && !closing) {
                let new = connection.tokens().saturating_sub(before);
                self.tokens.fetch_add(new, Ordering::Relaxed);
                return Ok(complete);
            }
        }
    }

    /// Ends requests that took too long.
    pub(super) fn enforce_limits(&mut self, now: Nanos) {
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
        self.endings.tell(RequestRecord {
            connected: times.connected,
            first_byte: times.first_byte,
            chunks: answer.chunks,
            finished,
            usage: answer.usage,
            text: answer.text,
            tool_calls: answer.tool_calls,
            failure,
            ..held.record
        });
    }
}
