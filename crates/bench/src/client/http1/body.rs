//! Where a response body ends, and which of the received bytes belong to it.

/// How the end of a body is known, and how much of it is still to come.
#[derive(Debug)]
pub(crate) struct BodyFraming {
    rule: Rule,
}

#[derive(Debug)]
enum Rule {
    Chunked(Chunk),
    Length(u64),
    UntilClose,
}

/// Where a chunked body stands.
#[derive(Debug)]
enum Chunk {
    /// Reading the hexadecimal size; the flag says whether a digit was seen.
    Size {
        size: u64,
        digits: u8,
    },
    /// Passing over what follows the size on its line.
    Extension {
        size: u64,
    },
    Data {
        left: u64,
    },
    /// Passing over the line end after the data.
    DataEnd,
    /// Passing over trailer lines; the count is of bytes on the present one.
    Trailer {
        length: usize,
    },
    Done,
}

/// A chunk size that is no hexadecimal number, or too large to be one.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the chunked body is malformed at byte {byte:#04x}")]
pub(crate) struct MalformedChunk {
    byte: u8,
}

impl BodyFraming {
    pub(crate) fn chunked() -> Self {
        Self {
            rule: Rule::Chunked(Chunk::Size { size: 0, digits: 0 }),
        }
    }

    pub(crate) fn length(length: u64) -> Self {
        Self {
            rule: Rule::Length(length),
        }
    }

    pub(crate) fn until_close() -> Self {
        Self {
            rule: Rule::UntilClose,
        }
    }

    /// Whether the whole body has been seen.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.rule, Rule::Length(0) | Rule::Chunked(Chunk::Done))
    }

    /// Whether a closed connection is a proper end now.
    pub(crate) fn may_close(&self) -> bool {
        self.is_complete() || matches!(self.rule, Rule::UntilClose)
    }

    /// Takes the next piece of payload off the received bytes; `None` when they are used up.
    pub(crate) fn payload<'a>(
        &mut self,
        received: &mut &'a [u8],
    ) -> Result<Option<&'a [u8]>, MalformedChunk> {
        match &mut self.rule {
            Rule::UntilClose => Ok(take(received, u64::MAX)),
            Rule::Length(left) => {
                let piece = take(received, *left);
                *left -= piece.map_or(0, <[u8]>::len) as u64;
                Ok(piece)
            }
            Rule::Chunked(chunk) => loop {
                chunk.pass_plain_size(received);
                if let Chunk::Data { left } = chunk {
                    let piece = take(received, *left);
                    *left -= piece.map_or(0, <[u8]>::len) as u64;
                    if *left == 0 {
                        *chunk = Chunk::DataEnd;
                    }
                    return Ok(piece);
                }
                let Some((&byte, rest)) = received.split_first() else {
                    return Ok(None);
                };
                if matches!(chunk, Chunk::Done) {
                    return Ok(None);
                }
                *received = rest;
                chunk.pass(byte)?;
            },
        }
    }
}

fn take<'a>(received: &mut &'a [u8], most: u64) -> Option<&'a [u8]> {
    let length = received
        .len()
        .min(usize::try_from(most).unwrap_or(usize::MAX));
    let (piece, rest) = received.split_at(length);
    *received = rest;
    (!piece.is_empty()).then_some(piece)
}

impl Chunk {
    /// Passes over the end of data and the size after it where both are there and plainly written,
    /// as nearly all are.
    fn pass_plain_size(&mut self, received: &mut &[u8]) {
        if !matches!(self, Self::DataEnd) {
            return;
        }
        let Some(rest) = received.strip_prefix(b"\r\n") else {
            return;
        };
        let mut left = 0;
        for (place, &byte) in rest.iter().take(8).enumerate() {
            let Some(digit) = (byte as char).to_digit(16) else {
                if left > 0
                    && let Some(data) = rest[place..].strip_prefix(b"\r\n")
                {
                    *self = Self::Data { left };
                    *received = data;
                }
                return;
            };
            left = left * 16 + u64::from(digit);
        }
    }

    /// Takes in one byte that is not payload.
    fn pass(&mut self, byte: u8) -> Result<(), MalformedChunk> {
        *self = match *self {
            Self::Size { size, digits } => match (byte as char).to_digit(16) {
                Some(digit) if digits < 15 => Self::Size {
                    size: size * 16 + u64::from(digit),
                    digits: digits + 1,
                },
                None if digits > 0 && byte == b'\n' => Self::after_size(size),
                None if digits > 0 && matches!(byte, b'\r' | b';' | b' ' | b'\t') => {
                    Self::Extension { size }
                }
                _ => return Err(MalformedChunk { byte }),
            },
            Self::Extension { size } if byte == b'\n' => Self::after_size(size),
            Self::DataEnd if byte == b'\n' => Self::Size { size: 0, digits: 0 },
            Self::DataEnd if byte != b'\r' => return Err(MalformedChunk { byte }),
            Self::Trailer { length: 0 } if byte == b'\n' => Self::Done,
            Self::Trailer { .. } if byte == b'\n' => Self::Trailer { length: 0 },
            Self::Trailer { length } if byte != b'\r' => Self::Trailer { length: length + 1 },
            _ => return Ok(()),
        };
        Ok(())
    }

    fn after_size(size: u64) -> Self {
        if size == 0 {
            Self::Trailer { length: 0 }
        } else {
            Self::Data { left: size }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(framing: &mut BodyFraming, pieces: &[&[u8]]) -> Result<String, MalformedChunk> {
        let mut body = Vec::new();
        for piece in pieces {
            let mut received = *piece;
            while let Some(payload) = framing.payload(&mut received)? {
                body.extend_from_slice(payload);
            }
        }
        Ok(String::from_utf8(body).unwrap())
    }

    #[test]
    fn a_chunked_body_is_whole_wherever_it_was_cut() {
        let bytes =
            b"5\r\nhello\r\n1;name=value\r\n \r\nA\r\nwonderful!\r\n0\r\nTrailer: x\r\n\r\n";
        for first in 0..bytes.len() {
            for second in first..bytes.len() {
                let mut framing = BodyFraming::chunked();
                let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                assert_eq!(read(&mut framing, &pieces).unwrap(), "hello wonderful!");
                assert!(framing.is_complete(), "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn a_chunked_body_without_its_end_is_incomplete() {
        for bytes in [&b"5\r\nhel"[..], b"5\r\nhello", b"5\r\nhello\r\n", b"0\r\n"] {
            let mut framing = BodyFraming::chunked();
            read(&mut framing, &[bytes]).unwrap();
            assert!(!framing.may_close());
        }
    }

    #[test]
    fn a_body_of_known_length_takes_no_more_than_that() {
        let mut framing = BodyFraming::length(4);
        assert_eq!(read(&mut framing, &[b"ab", b"cdef"]).unwrap(), "abcd");
        assert!(framing.is_complete());
    }

    #[test]
    fn a_body_until_close_may_end_at_any_time() {
        let mut framing = BodyFraming::until_close();
        assert_eq!(read(&mut framing, &[b"ab", b"cd"]).unwrap(), "abcd");
        assert!(!framing.is_complete() && framing.may_close());
    }

    #[test]
    fn a_size_that_is_no_number_is_refused() {
        for bytes in [&b"x\r\n"[..], b"\r\n", b"ffffffffffffffff\r\n", b"1\r\nab"] {
            assert!(
                read(&mut BodyFraming::chunked(), &[bytes]).is_err(),
                "{bytes:?}"
            );
        }
    }
}
