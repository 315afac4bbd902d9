//! What is kept of every request: the raw material of all figures.

mod chunks;

pub use chunks::{Chunks, Iter as ChunkIter};

use crate::clock::Nanos;
use serde::{Deserialize, Serialize};

/// One request as it went: when it was due, when each part of the answer came, how it ended.
///
/// Every figure is a function of records, so a run can be measured again without being run again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// The dataset row.
    pub row: usize,
    /// The turn within a conversation; zero for everything else.
    pub round: usize,
    /// When the pace wanted it sent.
    pub scheduled: Nanos,
    /// When the gate let it through.
    pub released: Nanos,
    /// When it was sent: just before the connection was opened.
    pub sent: Nanos,
    /// When the connection stood; an encrypted one once both sides have proved themselves.
    pub connected: Option<Nanos>,
    /// When the first byte of the answer arrived.
    pub first_byte: Option<Nanos>,
    /// The parts of the answer that carried text, in order of arrival.
    pub chunks: Chunks,
    /// When the last line of the answer arrived, or the request failed.
    pub finished: Nanos,
    /// What was asked for.
    pub asked: Asked,
    /// What the server said it used.
    pub usage: Usage,
    /// The generated text.
    pub text: String,
    /// The tool calls of the answer, which are generated but no text of it.
    #[serde(default, skip_serializing_if = "ToolCalls::is_empty")]
    pub tool_calls: ToolCalls,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
}

/// When a request was due and when it was let go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// When the pace wanted it sent.
    pub scheduled: Nanos,
    /// When the gate let it through.
    pub released: Nanos,
}

impl Due {
    /// Due and let go at the same moment.
    pub fn at(moment: Nanos) -> Self {
        Self {
            scheduled: moment,
            released: moment,
        }
    }
}

/// The size of a request as the dataset gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Prompt tokens by the dataset's count.
    pub prompt_tokens: u64,
    /// The part of them that is text.
    pub text_tokens: u64,
    /// The part of them that is images.
    pub vision_tokens: u64,
    /// Output tokens asked for.
    pub output_tokens: u64,
}

/// One arrival of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u32, u32)", into = "(u64, u32, u32)")]
pub struct Chunk {
    /// When it arrived.
    pub at: Nanos,
    /// All output tokens so far by the server's count; zero when it did not say.
    pub tokens: u32,
    /// Where this chunk's text ends in the record's text; zero for streams that repeat the text.
    pub text_end: u32,
}

impl From<(u64, u32, u32)> for Chunk {
    fn from((at, tokens, text_end): (u64, u32, u32)) -> Self {
        Self {
            at: Nanos(at),
            tokens,
            text_end,
        }
    }
}

impl From<Chunk> for (u64, u32, u32) {
    fn from(chunk: Chunk) -> Self {
        (chunk.at.0, chunk.tokens, chunk.text_end)
    }
}

/// Names and arguments of tool calls as they arrived.
///
/// They are kept apart from the text because the reference passes over them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolCalls {
    /// The parts, in order of arrival; `text_end` is an end in the text below.
    pub chunks: Chunks,
    /// Names and arguments, one after another.
    pub text: String,
}

impl ToolCalls {
    /// Whether there was none.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.text.is_empty()
    }
}

/// What the server said about the tokens of one request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Prompt tokens.
    pub prompt_tokens: Option<u64>,
    /// Output tokens, where a text-bearing event or a final one said so.
    pub output_tokens: Option<u64>,
    /// Prompt tokens found in the prefix cache.
    pub cached_tokens: Option<u64>,
    /// Where they were found, as the server words it.
    pub cached_tokens_details: Option<serde_json::Value>,
    /// Mean accepted length of speculative decoding.
    pub accept_length: Option<f64>,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// No connection.
    #[error("cannot connect: {reason}")]
    Connect {
        /// The system's words.
        reason: String,
    },
    /// An answer other than 200.
    #[error("{reason}: {body}")]
    Status {
        /// The status code.
        code: u16,
        /// Its words.
        reason: String,
        /// The answer's body, shortened.
        body: String,
    },
    /// The connection broke while the answer was under way.
    #[error("connection lost: {reason}")]
    Lost {
        /// The system's words.
        reason: String,
    },
    /// The connection was closed before the body was whole.
    #[error("connection closed before the answer was whole")]
    Cut,
    /// A whole body, but the stream never said that it was done.
    #[error("stream ended without a finish reason or [DONE]")]
    Unfinished,
    /// An error reported inside a stream that began well.
    #[error("error in the stream: {message}")]
    InStream {
        /// The server's words.
        message: String,
    },
    /// Something that is not what this protocol says.
    #[error("malformed answer: {reason}")]
    Malformed {
        /// What was wrong.
        reason: String,
    },
    /// A 200 of something else than events or JSON.
    #[error("wrong content type: {found}")]
    ContentType {
        /// What the server said it sends.
        found: String,
    },
    /// A 200 without content.
    #[error("empty answer")]
    Empty,
    /// Nothing more came in time.
    #[error("no answer within {seconds} s")]
    Timeout {
        /// The limit.
        seconds: u64,
    },
    /// Stopped by the person or by a stop rule while under way.
    #[error("abandoned")]
    Abandoned,
}

impl Failure {
    /// A short name, the same for all failures of a kind, for counting.
    pub fn name(&self) -> String {
        match self {
            Self::Connect { reason } => format!("cannot connect ({reason})"),
            Self::Status { code, reason, .. } => format!("HTTP {code} {reason}"),
            Self::Lost { reason } => format!("connection lost ({reason})"),
            Self::Cut => "connection closed early".to_owned(),
            Self::Unfinished => "stream without an end".to_owned(),
            Self::InStream { .. } => "error in the stream".to_owned(),
            Self::Malformed { .. } => "malformed answer".to_owned(),
            Self::ContentType { found } => format!("wrong content type ({found})"),
            Self::Empty => "empty answer".to_owned(),
            Self::Timeout { seconds } => format!("no answer within {seconds} s"),
            Self::Abandoned => "abandoned".to_owned(),
        }
    }
}

impl RequestRecord {
    /// The record of a request that was just sent and has no answer yet.
    pub fn begun(row: usize, round: usize, due: Due, sent: Nanos, asked: Asked) -> Self {
        Self {
            row,
            round,
            scheduled: due.scheduled,
            released: due.released,
            sent,
            connected: None,
            first_byte: None,
            chunks: Chunks::default(),
            finished: sent,
            asked,
            usage: Usage::default(),
            text: String::new(),
            tool_calls: ToolCalls::default(),
            failure: None,
        }
    }

    /// Whether the request ended well.
    pub fn succeeded(&self) -> bool {
        self.failure.is_none()
    }

    /// The text of each chunk; empty for streams that repeat the text.
    pub fn chunk_texts(&self) -> impl Iterator<Item = &str> {
        pieces(&self.chunks, &self.text)
    }

    /// When the first token arrived: of the text or of a tool call.
    pub fn first_token(&self) -> Option<Nanos> {
        let firsts = [self.chunks.first(), self.tool_calls.chunks.first()];
        firsts.iter().flatten().map(|chunk| chunk.at).min()
    }

    /// Everything that was generated, each part with its text, in order of arrival.
    pub fn generated(&self) -> Vec<(Chunk, &str)> {
        let calls = &self.tool_calls;
        let mut parts: Vec<(Chunk, &str)> = self.chunks.iter().zip(self.chunk_texts()).collect();
        if !calls.chunks.is_empty() {
            parts.extend(calls.chunks.iter().zip(pieces(&calls.chunks, &calls.text)));
            parts.sort_by_key(|(chunk, _)| chunk.at);
        }
        parts
    }

    /// The same record with every moment as far from `to` as it was from `from`.
    #[must_use]
    pub fn moved(mut self, from: Nanos, to: Nanos) -> Self {
        let shift = |moment: Nanos| Nanos((moment.0 + to.0).saturating_sub(from.0));
        let moved = |chunks: &Chunks| -> Chunks {
            let chunks = chunks.iter();
            chunks
                .map(|chunk| Chunk {
                    at: shift(chunk.at),
                    ..chunk
                })
                .collect()
        };
        self.scheduled = shift(self.scheduled);
        self.released = shift(self.released);
        self.sent = shift(self.sent);
        self.connected = self.connected.map(shift);
        self.first_byte = self.first_byte.map(shift);
        self.finished = shift(self.finished);
        self.chunks = moved(&self.chunks);
        self.tool_calls.chunks = moved(&self.tool_calls.chunks);
        self
    }
}

/// The text of each chunk.
fn pieces<'a>(chunks: &'a Chunks, text: &'a str) -> impl Iterator<Item = &'a str> {
    let mut start = 0;
    chunks.iter().map(move |chunk| {
        let end = chunk.text_end as usize;
        let piece = text.get(start..end).unwrap_or_default();
        start = end;
        piece
    })
}
