//! One request on its own connection, from connecting to the last byte.

use crate::client::answer::{Answer, AnswerReader, Dialect};
use crate::client::http1::{BodyFraming, ResponseHead};
use crate::client::tls::Session;
use crate::clock::Nanos;
use crate::record::Failure;
use mio::net::TcpStream;
use std::io::{self, Write};

/// The body of an error answer is kept up to this length.
const LONGEST_ERROR_BODY: usize = 16 * 1024;

/// A connection and how far its exchange has come.
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) times: Times,
    /// What lies between the socket and the exchange, where it is encrypted.
    session: Option<Box<Session>>,
    request: Vec<u8>,
    written: usize,
    stage: Stage,
}

/// The moments of an exchange so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    pub(super) connected: Option<Nanos>,
    pub(super) first_byte: Option<Nanos>,
    /// The newest arrival; arrivals never run backwards.
    pub(super) newest: Nanos,
}

enum Stage {
    Connecting(Dialect),
    /// The response head so far.
    Head(Dialect, Vec<u8>),
    Answer(BodyFraming, Box<AnswerReader>),
    Error {
        framing: BodyFraming,
        code: u16,
        reason: String,
        body: Vec<u8>,
    },
}

/// What an exchange came to.
pub(super) struct Ending {
    pub(super) answer: Answer,
    pub(super) failure: Option<Failure>,
}

/// Why an exchange cannot go on.
type Over = Failure;

impl Connection {
    /// An exchange on a socket; the session, where there is one, has not begun.
    pub(super) fn new(
        (stream, mut session): (TcpStream, Option<Box<Session>>),
        dialect: Dialect,
        mut request: Vec<u8>,
        sent: Nanos,
    ) -> Self {
        if let Some(session) = &mut session {
            session.send(&std::mem::take(&mut request));
        }
        let times = Times {
            newest: sent,
            ..Times::default()
        };
        Self {
            stream,
            times,
            session,
            request,
            written: 0,
            stage: Stage::Connecting(dialect),
        }
    }

    /// The socket can be written to: notice the connection, send what is left.
    pub(super) fn writable(&mut self, now: Nanos) -> Result<(), Over> {
        while self.has_more_to_send() {
            let sent = match &mut self.session {
                None => self.stream.write(&self.request[self.written..]),
                Some(session) => session.write(&mut self.stream),
            };
            match sent {
                Ok(written) => {
                    self.written += written;
                    // What can be written to is connected, though maybe not to the right server.
                    if let Stage::Connecting(dialect) = self.stage {
                        self.times.connected = self.session.is_none().then_some(now);
                        self.stage = Stage::Head(dialect, Vec::new());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if matches!(self.stage, Stage::Connecting(_)) => {
                    return Err(Failure::Connect {
                        reason: words(&error),
                    });
                }
                // The server may have answered before it broke the connection: reading tells.
                Err(_) => break,
            }
        }
        self.request = Vec::new();
        self.written = 0;
        Ok(())
    }

    /// Whether there is something left to send, the connection's standing included.
    pub(super) fn is_writing(&self) -> bool {
        !self.is_connected() || self.has_more_to_send()
    }

    fn has_more_to_send(&self) -> bool {
        match &self.session {
            None => self.written < self.request.len(),
            Some(session) => session.wants_write(),
        }
    }

    /// Whether the server waits for an answer of ours before it sees the request.
    pub(super) fn is_handshaking(&self) -> bool {
        self.session
            .as_ref()
            .is_some_and(|session| session.is_handshaking())
    }

    /// Whether an answer can be expected yet.
    pub(super) fn is_connected(&self) -> bool {
        !matches!(self.stage, Stage::Connecting(_))
    }

    /// Takes in received bytes; whether the answer is now whole.
    ///
    /// What is encrypted is opened into `plain`, which is overwritten.
    pub(super) fn received(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        at: Nanos,
    ) -> Result<bool, Over> {
        let Some(session) = &mut self.session else {
            return self.answered(bytes, at);
        };
        plain.clear();
        let opened = session.open(bytes, plain);
        if !session.is_handshaking() {
            self.times.connected.get_or_insert(at);
        }
        let (is_handshaking, is_closed) = (session.is_handshaking(), session.is_closed());
        if !plain.is_empty() && self.answered(plain, at)? {
            return Ok(true);
        }
        self.times.newest = at;
        // The next flight of a handshake, or what is wrong with the last.
        self.writable(at)?;
        match opened {
            Ok(()) if is_closed => self.closed().map(|()| true),
            Ok(()) => Ok(false),
            Err(reason) if is_handshaking => Err(Failure::Connect { reason }),
            Err(reason) => Err(Failure::Lost { reason }),
        }
    }

    /// Takes in bytes of the answer; whether it is now whole.
    fn answered(&mut self, bytes: &[u8], at: Nanos) -> Result<bool, Over> {
        self.times.first_byte.get_or_insert(at);
        self.times.newest = at;
        let Stage::Head(dialect, early) = &mut self.stage else {
            return self.body(bytes, at);
        };
        let (dialect, mut early) = (*dialect, std::mem::take(early));
        // Nearly always the head comes whole, with much of the body: that is not copied.
        let bytes = if early.is_empty() {
            bytes
        } else {
            early.extend_from_slice(bytes);
            &early
        };
        let parsed = ResponseHead::parse(bytes).map_err(malformed)?;
        let Some((response, length)) = parsed else {
            self.stage = Stage::Head(dialect, bytes.to_vec());
            return Ok(false);
        };
        self.stage = Stage::after_head(response, dialect)?;
        self.body(&bytes[length..], at)
    }

    fn body(&mut self, mut bytes: &[u8], at: Nanos) -> Result<bool, Over> {
        match &mut self.stage {
            Stage::Connecting(_) | Stage::Head(..) => Ok(false),
            Stage::Answer(framing, reader) => {
                let next = || framing.payload(&mut bytes).map_err(malformed).transpose();
                reader.push(std::iter::from_fn(next), at)?;
                Ok(framing.is_complete())
            }
            Stage::Error { framing, body, .. } => {
                while let Some(piece) = framing.payload(&mut bytes).map_err(malformed)? {
                    let room = LONGEST_ERROR_BODY.saturating_sub(body.len());
                    body.extend_from_slice(&piece[..piece.len().min(room)]);
                }
                Ok(framing.is_complete())
            }
        }
    }

    /// Tokens of the answer so far, or parts of it where tokens are not counted.
    pub(super) fn tokens(&self) -> u64 {
        match &self.stage {
            Stage::Answer(_, reader) => reader.tokens(),
            _ => 0,
        }
    }

    /// The server closed the connection, properly or not.
    pub(super) fn closed(&self) -> Result<(), Over> {
        match &self.session {
            Some(session) if session.is_handshaking() => {
                return Err(Failure::Connect {
                    reason: "closed in the middle of the TLS handshake".to_owned(),
                });
            }
            // Without the server's word for it, an end may be anybody's doing.
            Some(session) if !session.is_closed() => return Err(Failure::Cut),
            _ => {}
        }
        match &self.stage {
            Stage::Answer(framing, _) | Stage::Error { framing, .. } if framing.may_close() => {
                Ok(())
            }
            _ => Err(Failure::Cut),
        }
    }

    /// Ends the exchange: what it came to.
    pub(super) fn end(self, over: Option<Failure>) -> (Times, Ending) {
        let at = self.times.newest;
        let (answer, failure) = match (self.stage, over) {
            (Stage::Answer(_, reader), None) => reader.finish(at),
            (Stage::Answer(_, reader), Some(over)) => (reader.abandon(), Some(over)),
            (
                Stage::Error {
                    code, reason, body, ..
                },
                _,
            ) => {
                let body = String::from_utf8_lossy(&body).into_owned();
                (
                    Answer::default(),
                    Some(Failure::Status { code, reason, body }),
                )
            }
            (_, over) => (Answer::default(), Some(over.unwrap_or(Failure::Cut))),
        };
        (self.times, Ending { answer, failure })
    }
}

impl Stage {
    fn after_head(head: ResponseHead, dialect: Dialect) -> Result<Self, Over> {
        let ResponseHead {
            status,
            reason,
            content_type,
            framing,
        } = head;
        if status != 200 {
            return Ok(Self::Error {
                framing,
                code: status,
                reason,
                body: Vec::new(),
            });
        }
        if !carries_events(&content_type) {
            return Err(Failure::ContentType {
                found: content_type,
            });
        }
        Ok(Self::Answer(framing, Box::new(AnswerReader::new(dialect))))
    }
}

/// Whether an answer of this content type can be one of ours; many servers do not say.
fn carries_events(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    kind.is_empty()
        || [
            "text/event-stream",
            "text/plain",
            "application/octet-stream",
        ]
        .contains(&kind)
        || (kind.starts_with("application/") && kind.ends_with("json"))
}

fn malformed(error: impl std::fmt::Display) -> Failure {
    Failure::Malformed {
        reason: error.to_string(),
    }
}

/// The system's words for an error, without its number.
pub(super) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_lowercase()
}
