//! Ends HTTP/2 connections that send frames and ask for nothing by them.
//!
//! h2 answers every PING and SETTINGS, and reads every PRIORITY, RST_STREAM and WINDOW_UPDATE, however many come. Each is
//! a few bytes for the client; so they are counted here, where the bytes come in.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::PREFACE;

/// Frames without a request that a connection may send at once.
const BURST: f64 = 1000.0;
/// The same per second after that.
const PER_SECOND: f64 = 100.0;
/// Bytes of ours that a client may acknowledge with one WINDOW_UPDATE; clients send up to two for an event of a stream.
const BYTES_PER_UPDATE: f64 = 64.0;
/// Parts of a body that are smaller than this cost more to take than they carry.
const SMALL_DATA: u32 = 16;

const HEAD: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;

/// A stream of bytes whose frames are counted as they are read.
pub(super) struct Guarded<S> {
    inner: S,
    client: SocketAddr,
    frames: Frames,
    allowance: Allowance,
}

impl<S> Guarded<S> {
    /// The connection is at its very beginning.
    pub(super) fn new(inner: S, client: SocketAddr) -> Self {
        Self {
            inner,
            client,
            frames: Frames {
                skip: PREFACE.len(),
                head: [0; HEAD],
                filled: 0,
            },
            allowance: Allowance::new(Instant::now()),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.inner).poll_read(context, buffer);
        if let Poll::Ready(Ok(())) = read {
            let now = Instant::now();
            let allowance = &mut this.allowance;
            let allowed = |frame: &Frame| allowance.takes(frame, now);
            if !this.frames.all(&buffer.filled()[before..], allowed) {
                tracing::warn!(
                    "{} floods its HTTP/2 connection, which is closed",
                    this.client
                );
                return Poll::Ready(Err(io::Error::other("a flood of HTTP/2 frames")));
            }
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_write(context, bytes);
        this.allowance.count_written(&written);
        written
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_write_vectored(context, parts);
        this.allowance.count_written(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(context)
    }
}

/// The head of a frame, as far as it matters.
#[derive(Debug, PartialEq, Eq)]
struct Frame {
    length: u32,
    kind: u8,
    flags: u8,
}

/// Where in a frame the bytes are.
struct Frames {
    /// Bytes until the next head.
    skip: usize,
    head: [u8; HEAD],
    filled: usize,
}

impl Frames {
    /// Whether every frame that has its head in these bytes, or ends it there, is `allowed`.
    fn all(&mut self, mut bytes: &[u8], mut allowed: impl FnMut(&Frame) -> bool) -> bool {
        while !bytes.is_empty() {
            let passed = self.skip.min(bytes.len());
            self.skip -= passed;
            bytes = &bytes[passed..];
            let taken = (HEAD - self.filled).min(bytes.len());
            self.head[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            bytes = &bytes[taken..];
            if self.filled == HEAD {
                let [a, b, c, kind, flags, ..] = self.head;
                let length = u32::from_be_bytes([0, a, b, c]);
                self.filled = 0;
                self.skip = length as usize;
                if !allowed(&Frame {
                    length,
                    kind,
                    flags,
                }) {
                    return false;
                }
            }
        }
        true
    }
}

/// Frames without a request that a client may still send.
struct Allowance {
    idle: f64,
    refilled: Instant,
    updates: f64,
}

impl Allowance {
    fn new(now: Instant) -> Self {
        Self {
            idle: BURST,
            refilled: now,
            updates: BURST,
        }
    }

    fn count_written(&mut self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = written {
            self.updates += *bytes as f64 / BYTES_PER_UPDATE;
        }
    }

    fn takes(&mut self, frame: &Frame, now: Instant) -> bool {
        match frame.kind {
            HEADERS => true,
            DATA if frame.length >= SMALL_DATA || frame.flags & END_STREAM != 0 => true,
            WINDOW_UPDATE => {
                self.updates -= 1.0;
                self.updates >= 0.0
            }
            _ => {
                let passed = now.saturating_duration_since(self.refilled);
                self.refilled = now;
                self.idle = (self.idle + passed.as_secs_f64() * PER_SECOND).min(BURST) - 1.0;
                self.idle >= 0.0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn frame(kind: u8, flags: u8, length: u8) -> Vec<u8> {
        let mut bytes = vec![0, 0, length, kind, flags, 0, 0, 0, 0];
        bytes.extend(vec![7; usize::from(length)]);
        bytes
    }

    #[test]
    fn frames_are_found_however_the_bytes_are_cut() {
        let mut bytes = PREFACE.to_vec();
        for (kind, flags, length) in [(4, 0, 0), (1, 5, 30), (0, 1, 200), (6, 0, 8)] {
            bytes.extend(frame(kind, flags, length));
        }
        let client = SocketAddr::from(([127, 0, 0, 1], 1));
        for size in 1..bytes.len() {
            let mut frames = Guarded::new((), client).frames;
            let mut found = Vec::new();
            for part in bytes.chunks(size) {
                assert!(frames.all(part, |frame| {
                    found.push((frame.kind, frame.flags, frame.length));
                    true
                }));
            }
            assert_eq!(
                found,
                [(4, 0, 0), (1, 5, 30), (0, 1, 200), (6, 0, 8)],
                "{size}"
            );
        }
    }

    #[test]
    fn frames_that_ask_for_nothing_are_taken_at_a_rate() {
        let start = Instant::now();
        let mut allowance = Allowance::new(start);
        let ping = Frame {
            length: 8,
            kind: 6,
            flags: 0,
        };
        let mut at_once = |now| {
            (0..5000)
                .take_while(|_| allowance.takes(&ping, now))
                .count()
        };
        assert_eq!(at_once(start), 1000);
        // the one that was too many counts too
        assert_eq!(at_once(start + Duration::from_secs(2)), 199);
    }

    #[test]
    fn requests_and_bodies_are_taken_without_end_and_updates_as_bytes_were_sent() {
        let now = Instant::now();
        let mut allowance = Allowance::new(now);
        let request = Frame {
            length: 30,
            kind: HEADERS,
            flags: 5,
        };
        let part = Frame {
            length: 1000,
            kind: DATA,
            flags: 0,
        };
        let end = Frame {
            length: 0,
            kind: DATA,
            flags: END_STREAM,
        };
        for _ in 0..10_000 {
            assert!(
                [&request, &part, &end]
                    .into_iter()
                    .all(|frame| allowance.takes(frame, now))
            );
        }
        let update = Frame {
            length: 4,
            kind: WINDOW_UPDATE,
            flags: 0,
        };
        allowance.count_written(&Poll::Ready(Ok(64_000)));
        let taken = (0..5000)
            .take_while(|_| allowance.takes(&update, now))
            .count();
        assert_eq!(taken, 2000);
        let small = Frame {
            length: 1,
            kind: DATA,
            flags: 0,
        };
        let taken = (0..5000)
            .take_while(|_| allowance.takes(&small, now))
            .count();
        assert_eq!(taken, 1000);
    }
}
