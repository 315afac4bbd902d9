//! Reading forward through untrusted bytes.

use std::ops::Range;

use super::GgufError;

/// A place in the bytes of a file; every step forward is checked.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Steps over `length` bytes and says where they were.
    pub(super) fn skip(
        &mut self,
        length: u64,
        what: &'static str,
    ) -> Result<Range<usize>, GgufError> {
        let truncated = GgufError::Truncated {
            what,
            length: self.bytes.len(),
        };
        match usize::try_from(length) {
            Ok(length) if length <= self.remaining() => {
                let start = self.at;
                self.at += length;
                Ok(start..self.at)
            }
            _ => Err(truncated),
        }
    }

    pub(super) fn array<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<[u8; N], GgufError> {
        let range = self.skip(N as u64, what)?;
        Ok(self.bytes[range].try_into().expect("the range has N bytes"))
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, GgufError> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, GgufError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// Steps over a text (its length, then its bytes) and says where its bytes were.
    pub(super) fn text(&mut self, what: &'static str) -> Result<Range<usize>, GgufError> {
        let length = self.u64(what)?;
        self.skip(length, what)
    }

    /// A short text: the name of a key or a tensor.
    pub(super) fn name(&mut self, what: &'static str) -> Result<&'a str, GgufError> {
        const LIMIT: usize = 65_535;
        let range = self.text(what)?;
        if range.len() > LIMIT {
            let (count, limit) = (range.len() as u64, LIMIT as u64);
            return Err(GgufError::TooMany {
                what: "bytes in a name",
                count,
                limit,
            });
        }
        std::str::from_utf8(&self.bytes[range]).map_err(|_| GgufError::Text {
            what: what.to_owned(),
        })
    }
}
