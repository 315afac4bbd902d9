//! What a server does about a request.

use super::Stretch;
use std::sync::Arc;
use std::time::Duration;

/// Steps at moments after the request was read.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The steps, in order of time.
    pub steps: Vec<Step>,
}

/// One thing to do.
#[derive(Clone, Debug)]
pub struct Step {
    /// When, after the request was read.
    pub after: Duration,
    /// What.
    pub act: Act,
}

/// What can be done with a connection.
#[derive(Clone, Debug)]
pub enum Act {
    /// Write these bytes; scripts that say the same share them.
    Send(Arc<[u8]>),
    /// Write these bytes of a file.
    SendStretch(Stretch),
    /// Close it properly.
    Close,
    /// Break it: the client sees a reset.
    Reset,
    /// Read the next request from it.
    Next,
}

impl Act {
    /// How many bytes it writes.
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Send(bytes) => bytes.len(),
            Self::SendStretch(stretch) => stretch.len(),
            Self::Close | Self::Reset | Self::Next => 0,
        }
    }
}

impl Script {
    /// A whole answer at once, then ready for the next request.
    pub fn whole(status: &str, content_type: &str, body: &str) -> Self {
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        Self::default()
            .send(Duration::ZERO, (head + body).into_bytes())
            .next(Duration::ZERO)
    }

    /// A JSON answer.
    pub fn json(body: &serde_json::Value) -> Self {
        Self::whole("200 OK", "application/json", &body.to_string())
    }

    /// The head of a chunked event stream.
    pub fn events(after: Duration) -> Self {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\
            Transfer-Encoding: chunked\r\n\r\n";
        Self::default().send(after, head.as_bytes().to_vec())
    }

    /// Bytes as they are.
    pub fn send(self, after: Duration, bytes: impl Into<Arc<[u8]>>) -> Self {
        self.act(after, Act::Send(bytes.into()))
    }

    /// Anything.
    pub fn act(mut self, after: Duration, act: Act) -> Self {
        self.steps.push(Step { after, act });
        self
    }

    /// Payload as one chunk of a chunked body.
    pub fn chunk(self, after: Duration, payload: &[u8]) -> Self {
        let mut bytes = format!("{:x}\r\n", payload.len()).into_bytes();
        bytes.extend_from_slice(payload);
        bytes.extend_from_slice(b"\r\n");
        self.send(after, bytes)
    }

    /// One event of a stream, in a chunk of its own.
    pub fn event(self, after: Duration, data: &str) -> Self {
        self.chunk(after, format!("data: {data}\n\n").as_bytes())
    }

    /// The end of a chunked body.
    pub fn end(self, after: Duration) -> Self {
        self.send(after, b"0\r\n\r\n".to_vec()).next(after)
    }

    /// Ready for the next request on the same connection.
    pub fn next(mut self, after: Duration) -> Self {
        self.steps.push(Step {
            after,
            act: Act::Next,
        });
        self
    }

    /// The connection is closed.
    pub fn close(mut self, after: Duration) -> Self {
        self.steps.push(Step {
            after,
            act: Act::Close,
        });
        self
    }

    /// The connection is reset.
    pub fn reset(mut self, after: Duration) -> Self {
        self.steps.push(Step {
            after,
            act: Act::Reset,
        });
        self
    }
}
