//! Questions and commands to a server that are no part of the load.

use super::http1::{ResponseHead, Url, write_request_head};
use super::tls::{Trust, refusal};
use super::wire::Wire;
use serde_json::Value;
use std::io;
use std::time::Duration;

/// Of a longer answer only the beginning is kept.
const LONGEST: usize = 64 << 20;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No connection, or it broke.
    #[error("{url}: {source}")]
    Unreachable {
        /// What was asked.
        url: String,
        /// What the system said.
        source: io::Error,
    },
    /// The server is not who it has to be, or does not encrypt as agreed.
    #[error("{url}: {reason}")]
    Tls {
        /// What was asked.
        url: String,
        /// What is wrong, with the host's name.
        reason: String,
    },
    /// An answer that is no HTTP.
    #[error("{url}: {reason}")]
    Malformed {
        /// What was asked.
        url: String,
        /// What is wrong with the answer.
        reason: String,
    },
}

/// A server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// Its words.
    pub reason: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Reply {
    /// Whether the status is 200.
    pub fn is_ok(&self) -> bool {
        self.status == 200
    }

    /// The body as JSON, when it is.
    pub fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// The status and body as one line.
    pub fn words(&self) -> String {
        format!("{}: {}", self.reason, String::from_utf8_lossy(&self.body))
    }
}

/// Asks a server outside of any load.
#[derive(Clone, Debug)]
pub struct Control {
    base: Url,
    headers: Vec<(String, String)>,
    trust: Trust,
}

impl Control {
    /// Questions to this server, with these headers; the usual authorities are trusted.
    pub fn new(base: Url, headers: Vec<(String, String)>) -> Self {
        Self::trusting(base, headers, Trust::usual())
    }

    /// The same, where others are trusted.
    pub fn trusting(base: Url, headers: Vec<(String, String)>, trust: Trust) -> Self {
        Self {
            base,
            headers,
            trust,
        }
    }

    /// Questions to another server, without headers; the same are trusted.
    pub fn elsewhere(&self, base: Url) -> Self {
        Self::trusting(base, Vec::new(), self.trust.clone())
    }

    /// The address of a path, for messages.
    pub fn url(&self, path: &str) -> String {
        self.base.join(path)
    }

    /// `GET`.
    pub fn get(&self, path: &str, longest: Duration) -> Result<Reply, ControlError> {
        self.ask(("GET", path), None, longest)
    }

    /// `POST` with a JSON body, or without one.
    pub fn post(
        &self,
        path: &str,
        body: Option<&Value>,
        longest: Duration,
    ) -> Result<Reply, ControlError> {
        self.ask(("POST", path), body, longest)
    }

    /// `POST`s a JSON body and hands over the lines of the answer as they arrive; the status.
    pub fn stream(
        &self,
        path: &str,
        body: &Value,
        longest: Duration,
        line: &mut dyn FnMut(&[u8]),
    ) -> Result<u16, ControlError> {
        let mut pending = Vec::new();
        let mut split = |piece: &[u8]| {
            pending.extend_from_slice(piece);
            while let Some(end) = memchr::memchr(b'\n', &pending) {
                line(pending[..end].trim_ascii());
                pending.drain(..=end);
            }
        };
        let request = self.request(("POST", path), Some(body));
        let head = self.exchange(&request, longest, &self.base.join(path), &mut split)?;
        line(pending.trim_ascii());
        Ok(head.0)
    }

    fn ask(
        &self,
        line: (&str, &str),
        body: Option<&Value>,
        longest: Duration,
    ) -> Result<Reply, ControlError> {
        let mut received = Vec::new();
        let mut keep = |piece: &[u8]| {
            if received.len() < LONGEST {
                received.extend_from_slice(piece);
            }
        };
        let request = self.request(line, body);
        let (status, reason) =
            self.exchange(&request, longest, &self.base.join(line.1), &mut keep)?;
        Ok(Reply {
            status,
            reason,
            body: received,
        })
    }

    fn request(&self, (method, path): (&str, &str), body: Option<&Value>) -> Vec<u8> {
        let body = match (body, method) {
            (Some(body), _) => Some(body.to_string().into_bytes()),
            (None, "POST") => Some(Vec::new()),
            (None, _) => None,
        };
        let mut bytes = Vec::new();
        let mut headers = self.headers.clone();
        headers.push(("Connection".to_owned(), "close".to_owned()));
        let target = self.base.target(path);
        let length = body.as_ref().map(Vec::len);
        write_request_head(
            &mut bytes,
            (method, &target),
            self.base.authority(),
            &headers,
            length,
        );
        bytes.extend(body.unwrap_or_default());
        bytes
    }

    /// Sends a request and hands over the body as it arrives: the status and its words.
    fn exchange(
        &self,
        request: &[u8],
        longest: Duration,
        url: &str,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(u16, String), ControlError> {
        let identity = self.trust.identity(&self.base);
        let broken = |source: io::Error| broken(url, &self.base, source);
        let malformed = |reason: String| ControlError::Malformed {
            url: url.to_owned(),
            reason,
        };
        let mut wire = Wire::connect(&self.base, identity.as_ref(), longest).map_err(broken)?;
        wire.send(request).map_err(broken)?;
        let mut received = Vec::new();
        let (head, mut rest) = loop {
            let parsed = ResponseHead::parse(&received);
            if let Some((head, length)) = parsed.map_err(|error| malformed(error.to_string()))? {
                break (head, received.split_off(length));
            }
            if wire.read_more(&mut received).map_err(broken)? == 0 {
                return Err(malformed(
                    "the connection was closed without an answer".to_owned(),
                ));
            }
        };
        let mut framing = head.framing;
        loop {
            let mut bytes = rest.as_slice();
            while let Some(piece) = framing
                .payload(&mut bytes)
                .map_err(|error| malformed(error.to_string()))?
            {
                take(piece);
            }
            rest.clear();
            if framing.is_complete() {
                break;
            }
            if wire.read_more(&mut rest).map_err(broken)? == 0 {
                if framing.may_close() {
                    break;
                }
                return Err(malformed("the answer was cut short".to_owned()));
            }
        }
        Ok((head.status, head.reason))
    }
}

fn broken(url: &str, base: &Url, source: io::Error) -> ControlError {
    let url = url.to_owned();
    let told = source.get_ref().and_then(|inner| inner.downcast_ref());
    match told.map(|error| refusal(error, base.host())) {
        Some(reason) => ControlError::Tls { url, reason },
        None => ControlError::Unreachable { url, source },
    }
}
