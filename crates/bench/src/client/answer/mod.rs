//! Answers of servers, line by line, into the parts of a record.

mod chat;
mod completions;
mod native;
mod skim;
mod whole;
mod wire;

use crate::clock::Nanos;
use crate::record::{Chunk, Chunks, Failure, ToolCalls, Usage};

/// A line longer than this is taken for a broken server.
const LONGEST_LINE: usize = 256 << 20;

/// How the body of an answer is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `/generate`: events that repeat the whole text and count its tokens.
    Native,
    /// `/v1/completions` and truss: events with `choices[0].text`.
    Completions,
    /// `/v1/chat/completions`: events with `choices[0].delta`.
    Chat,
    /// A chat answer in one piece.
    ChatWhole,
    /// `/v1/embeddings`.
    Embeddings,
    /// Triton's `generate_stream`: events with `text_output`.
    Triton,
}

impl Dialect {
    /// Whether the body is one JSON text rather than lines.
    fn is_whole(self) -> bool {
        matches!(self, Self::ChatWhole | Self::Embeddings)
    }

    /// Whether a stream says in so many words that it is done.
    fn announces_end(self) -> bool {
        matches!(self, Self::Native | Self::Completions | Self::Chat)
    }
}

/// What an answer amounted to, whole or not.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) chunks: Chunks,
    pub(crate) tool_calls: ToolCalls,
    pub(crate) usage: Usage,
    /// When the last line arrived.
    pub(crate) last_line: Option<Nanos>,
}

/// What of a line has to be kept until the answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// It was taken in, or said nothing.
    Nothing,
    /// It is the newest native event with text.
    Newest,
}

/// Reads one answer as its bytes arrive.
pub(crate) struct AnswerReader {
    dialect: Dialect,
    answer: Answer,
    /// A line whose end has not arrived, or all of a body in one piece.
    pending: Vec<u8>,
    /// The newest native event with text, decoded at the end.
    newest: Vec<u8>,
    /// The newest native event without text: it may still carry counts and the end.
    bare: Vec<u8>,
    /// What the events so far have in common.
    shape: skim::Shape,
    ended: bool,
    in_stream: Option<Failure>,
}

impl AnswerReader {
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            answer: Answer::default(),
            pending: Vec::new(),
            newest: Vec::new(),
            bare: Vec::new(),
            shape: skim::Shape::default(),
            ended: false,
            in_stream: None,
        }
    }

    /// Takes in pieces of the body that arrived together at this moment.
    pub(crate) fn push<'p>(
        &mut self,
        pieces: impl Iterator<Item = Result<&'p [u8], Failure>>,
        at: Nanos,
    ) -> Result<(), Failure> {
        // Each native event has all that the ones before it had: of those that came together, one is kept.
        let mut newest = None;
        let read = self.pieces(pieces, at, &mut newest);
        if let Some(event) = newest {
            self.newest.clear();
            self.newest.extend_from_slice(event);
        }
        read
    }

    /// Takes in pieces; `newest` becomes the last event in one of them that has the text of the answer so far.
    fn pieces<'p>(
        &mut self,
        pieces: impl Iterator<Item = Result<&'p [u8], Failure>>,
        at: Nanos,
        newest: &mut Option<&'p [u8]>,
    ) -> Result<(), Failure> {
        for piece in pieces {
            let mut piece = piece?;
            if self.dialect.is_whole() {
                self.answer.last_line = Some(at);
            } else {
                self.lines(&mut piece, at, newest)?;
            }
            self.hold(piece)?;
        }
        Ok(())
    }

    /// Takes in all whole lines of a piece.
    fn lines<'p>(
        &mut self,
        piece: &mut &'p [u8],
        at: Nanos,
        newest: &mut Option<&'p [u8]>,
    ) -> Result<(), Failure> {
        loop {
            if self.pending.is_empty() {
                self.lines_again(piece, at, newest)?;
            }
            let Some(end) = memchr::memchr(b'\n', piece) else {
                return Ok(());
            };
            let line = &piece[..end];
            *piece = &piece[end + 1..];
            if !self.pending.is_empty() {
                self.hold(line)?;
                if self.pending_line(at)? == Kept::Newest {
                    *newest = None;
                }
            } else if self.line(line, at)? == Kept::Newest {
                *newest = event_in(line);
            }
        }
    }

    /// Takes in lines at the start of a piece with events of the shape of earlier ones, and the empty
    /// lines after them.
    fn lines_again<'p>(
        &mut self,
        piece: &mut &'p [u8],
        at: Nanos,
        newest: &mut Option<&'p [u8]>,
    ) -> Result<(), Failure> {
        while let Some(line) = piece.strip_prefix(b"data: ") {
            let Some(length) = self.event_again(line, at)? else {
                return Ok(());
            };
            self.answer.last_line = Some(at);
            let (event, rest) = line.split_at(length);
            if self.dialect == Dialect::Native {
                *newest = Some(event);
            }
            *piece = rest.strip_prefix(b"\n\n").unwrap_or(&rest[1..]);
        }
        Ok(())
    }

    /// Takes in the event a line starts with if it ends the line, has text and the shape of earlier ones: its length.
    fn event_again(&mut self, line: &[u8], at: Nanos) -> Result<Option<usize>, Failure> {
        let ends = |length: usize| line.get(length) == Some(&b'\n');
        match self.dialect {
            Dialect::Native => match skim::glance_again(line, &self.shape) {
                Some((seen, length)) if seen.has_text && ends(length) => {
                    self.native_text(seen, at)?;
                    Ok(Some(length))
                }
                _ => Ok(None),
            },
            _ => match skim::spoken_again(line, &self.shape) {
                Some((spoken, length)) if ends(length) => {
                    self.spoken(spoken, at)?;
                    Ok(Some(length))
                }
                _ => Ok(None),
            },
        }
    }

    /// Tokens so far, or chunks where tokens are not counted.
    pub(crate) fn tokens(&self) -> u64 {
        let counted = self
            .answer
            .chunks
            .last()
            .map_or(0, |chunk| u64::from(chunk.tokens));
        counted.max(self.answer.chunks.len() as u64)
    }

    /// The end of the body: the answer, and what was wrong with it.
    pub(crate) fn finish(mut self, at: Nanos) -> (Answer, Option<Failure>) {
        let failure = self.conclude(at).err();
        (self.answer, failure)
    }

    /// The part of the answer that came before a failure.
    pub(crate) fn abandon(mut self) -> Answer {
        // What cannot be decoded is left out: the request has failed already.
        self.decode_native().ok();
        self.answer
    }

    fn conclude(&mut self, at: Nanos) -> Result<(), Failure> {
        if self.dialect.is_whole() {
            let body = std::mem::take(&mut self.pending);
            return whole::read(self.dialect, &mut self.answer, &body);
        }
        self.pending_line(at)?;
        self.decode_native()?;
        if self.answer.last_line.is_none() {
            return Err(Failure::Empty);
        }
        if let Some(failure) = self.in_stream.take() {
            return Err(failure);
        }
        if self.dialect.announces_end() && !self.ended {
            return Err(Failure::Unfinished);
        }
        Ok(())
    }

    fn hold(&mut self, piece: &[u8]) -> Result<(), Failure> {
        if self.pending.len() + piece.len() > LONGEST_LINE {
            let reason = format!("a line is longer than {LONGEST_LINE} bytes");
            return Err(Failure::Malformed { reason });
        }
        self.pending.extend_from_slice(piece);
        Ok(())
    }

    fn pending_line(&mut self, at: Nanos) -> Result<Kept, Failure> {
        let line = std::mem::take(&mut self.pending);
        let kept = self.line(&line, at)?;
        if let (Kept::Newest, Some(event)) = (kept, event_in(&line)) {
            self.newest.clear();
            self.newest.extend_from_slice(event);
        }
        self.pending = line;
        self.pending.clear();
        Ok(kept)
    }

    fn line(&mut self, line: &[u8], at: Nanos) -> Result<Kept, Failure> {
        let Some(event) = event_in(line) else {
            return Ok(Kept::Nothing);
        };
        if event == protocol::sse::DONE.as_bytes() {
            self.answer.last_line = Some(at);
            self.ended = true;
            return Ok(Kept::Nothing);
        }
        let kept = match self.dialect {
            Dialect::Native => self.native(event, at)?,
            Dialect::Completions => self.completion(event, at).map(|()| Kept::Nothing)?,
            Dialect::Chat => self.chat(event, at).map(|()| Kept::Nothing)?,
            Dialect::Triton => self.triton(event, at).map(|()| Kept::Nothing)?,
            Dialect::ChatWhole | Dialect::Embeddings => Kept::Nothing,
        };
        self.answer.last_line = Some(at);
        Ok(kept)
    }

    fn chunk(&mut self, at: Nanos, tokens: u32) {
        let text_end = self.answer.text.len() as u32;
        self.answer.chunks.push(Chunk {
            at,
            tokens,
            text_end,
        });
    }
}

/// The event that a line carries; nothing for empty lines and other fields.
fn event_in(line: &[u8]) -> Option<&[u8]> {
    // Nearly every line is one of these two.
    if let Some(event) = line.strip_prefix(b"data: ") {
        return Some(event.trim_ascii());
    }
    let line = line.trim_ascii();
    if line.is_empty() || is_other_field(line) {
        return None;
    }
    let event = line.strip_prefix(b"data:").unwrap_or(line);
    Some(event.trim_ascii_start())
}

/// Comments and the fields of server-sent events that carry no data.
fn is_other_field(line: &[u8]) -> bool {
    [&b":"[..], b"event:", b"id:", b"retry:"]
        .iter()
        .any(|field| line.starts_with(field))
}

fn malformed(error: &serde_json::Error, event: &[u8]) -> Failure {
    let start: String = String::from_utf8_lossy(event).chars().take(120).collect();
    Failure::Malformed {
        reason: format!("{error} in {start:?}"),
    }
}

#[cfg(test)]
mod tests;
