//! The arrivals of an answer, kept small.

use super::Chunk;
use crate::clock::Nanos;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Arrivals of text in their order.
///
/// Each is kept as what it differs by from the one before, in as few bytes as that takes: a run
/// has millions of them, most of a few bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunks {
    differences: Vec<u8>,
    length: usize,
    newest: Chunk,
}

/// What the first arrival differs from.
const NOTHING: Chunk = Chunk {
    at: Nanos(0),
    tokens: 0,
    text_end: 0,
};
/// The bits of a number that go into one byte; the highest says that more follow.
const BITS: u32 = 7;
const MORE: u8 = 1 << BITS;

impl Default for Chunks {
    fn default() -> Self {
        Self {
            differences: Vec::new(),
            length: 0,
            newest: NOTHING,
        }
    }
}

impl Chunks {
    /// Adds one that came after all others.
    pub fn push(&mut self, chunk: Chunk) {
        let before = std::mem::replace(&mut self.newest, chunk);
        self.length += 1;
        let parts = [
            folded(chunk.at.0.wrapping_sub(before.at.0).cast_signed()),
            folded(i64::from(chunk.tokens) - i64::from(before.tokens)),
            folded(i64::from(chunk.text_end) - i64::from(before.text_end)),
        ];
        if parts.iter().all(|part| *part < u64::from(MORE)) {
            self.differences
                .extend_from_slice(&parts.map(|part| part as u8));
            return;
        }
        for mut part in parts {
            while part >= u64::from(MORE) {
                self.differences.push(part as u8 | MORE);
                part >>= BITS;
            }
            self.differences.push(part as u8);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The first.
    pub fn first(&self) -> Option<Chunk> {
        self.iter().next()
    }

    /// The last.
    pub fn last(&self) -> Option<Chunk> {
        (!self.is_empty()).then_some(self.newest)
    }

    /// The last count of tokens that the server told.
    pub fn last_count(&self) -> Option<u64> {
        let counts = self.iter().map(|chunk| u64::from(chunk.tokens));
        counts.filter(|count| *count > 0).last()
    }

    /// All of them, in order.
    pub fn iter(&self) -> Iter<'_> {
        Iter {
            rest: &self.differences,
            before: NOTHING,
        }
    }
}

/// Arrivals in order.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    rest: &'a [u8],
    before: Chunk,
}

impl Iter<'_> {
    fn part(&mut self) -> Option<i64> {
        let mut part = 0;
        let mut shift = 0;
        loop {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            part |= u64::from(byte & !MORE) << shift;
            if byte & MORE == 0 {
                return Some(unfolded(part));
            }
            shift += BITS;
        }
    }
}

impl Iterator for Iter<'_> {
    type Item = Chunk;

    fn next(&mut self) -> Option<Chunk> {
        let (at, tokens, text_end) = match self.rest {
            [at, tokens, text_end, rest @ ..] if (at | tokens | text_end) & MORE == 0 => {
                self.rest = rest;
                let part = |byte: &u8| unfolded(u64::from(*byte));
                (part(at), part(tokens), part(text_end))
            }
            _ => (self.part()?, self.part()?, self.part()?),
        };
        let before = self.before;
        self.before = Chunk {
            at: Nanos(before.at.0.wrapping_add_signed(at)),
            tokens: (i64::from(before.tokens) + tokens) as u32,
            text_end: (i64::from(before.text_end) + text_end) as u32,
        };
        Some(self.before)
    }
}

/// A number with its sign as the lowest bit, so that small ones of either sign are small.
fn folded(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

fn unfolded(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

impl<'a> IntoIterator for &'a Chunks {
    type Item = Chunk;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl FromIterator<Chunk> for Chunks {
    fn from_iter<I: IntoIterator<Item = Chunk>>(all: I) -> Self {
        let mut chunks = Self::default();
        for chunk in all {
            chunks.push(chunk);
        }
        chunks
    }
}

impl Serialize for Chunks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}

impl<'de> Deserialize<'de> for Chunks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let all: Vec<Chunk> = Vec::deserialize(deserializer)?;
        Ok(all.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(at: u64, tokens: u32, text_end: u32) -> Chunk {
        Chunk {
            at: Nanos(at),
            tokens,
            text_end,
        }
    }

    #[test]
    fn chunks_come_back_as_they_were_whatever_they_say() {
        let all = [
            chunk(5_000_000_000, 1, 4),
            chunk(5_000_000_000, 2, 9),
            chunk(5_020_000_001, 66, 9),
            chunk(0, 0, 0),
            chunk(u64::MAX, u32::MAX, u32::MAX),
            chunk(u64::MAX / 2, 63, 64),
            chunk(u64::MAX, 0, 128),
        ];
        for count in 0..=all.len() {
            let kept: Chunks = all[..count].iter().copied().collect();
            assert_eq!(kept.iter().collect::<Vec<_>>(), all[..count]);
            assert_eq!((kept.len(), kept.is_empty()), (count, count == 0));
            assert_eq!(kept.first(), all[..count].first().copied());
            assert_eq!(kept.last(), all[..count].last().copied());
            let line = serde_json::to_string(&kept).unwrap();
            assert_eq!(line, serde_json::to_string(&all[..count]).unwrap());
            assert_eq!(serde_json::from_str::<Chunks>(&line).unwrap(), kept);
        }
        let kept: Chunks = all.into_iter().collect();
        assert_eq!(kept.last_count(), Some(63));
    }

    #[test]
    fn tokens_that_came_together_take_three_bytes_each() {
        let kept: Chunks = (1..=1000)
            .map(|token| chunk(5_000_000_000, token, 4 * token))
            .collect();
        assert!(kept.differences.len() < 3010);
    }
}
