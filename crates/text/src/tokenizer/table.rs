//! The bytes that every token stands for, in one block of memory.

use super::TokenizerError;

/// The largest vocabulary accepted; the largest in use today has about 262,000 tokens.
const MAX_TOKENS: usize = 1 << 20;

/// Refuses ids that would make the table larger than any vocabulary.
pub(super) fn check_ids(entries: &[(String, u32)]) -> Result<(), TokenizerError> {
    check_size(
        entries
            .iter()
            .map(|(_, id)| *id as usize + 1)
            .max()
            .unwrap_or(0),
    )
}

fn check_size(size: usize) -> Result<(), TokenizerError> {
    if size > MAX_TOKENS {
        return Err(TokenizerError::IdTooLarge {
            id: size - 1,
            limit: MAX_TOKENS,
        });
    }
    Ok(())
}

/// How the text of a vocabulary entry stands for bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    /// Each character stands for one byte, as in GPT-2.
    ByteLevel,
    /// `▁` is a space and `<0x41>` is one byte, as in SentencePiece.
    SentencePiece,
    /// The text is what it says.
    Plain,
}

impl Coding {
    fn append_bytes(self, text: &str, out: &mut Vec<u8>) {
        match self {
            Self::ByteLevel => append_byte_level(text, out),
            Self::SentencePiece => append_sentence_piece(text, out),
            Self::Plain => out.extend_from_slice(text.as_bytes()),
        }
    }
}

/// Bytes and kind of every token id; ids without a token are empty.
#[derive(Debug)]
pub(super) struct TokenTable {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    kinds: Vec<Kind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Absent,
    Normal,
    Special,
}

impl TokenTable {
    /// Builds the table from vocabulary entries and the tokens added on top of them.
    pub(super) fn new<'a>(
        coding: Coding,
        entries: impl Iterator<Item = (&'a str, u32)> + Clone,
        added: impl Iterator<Item = (&'a str, u32, bool)> + Clone,
    ) -> Result<Self, TokenizerError> {
        let ids = entries
            .clone()
            .map(|(_, id)| id)
            .chain(added.clone().map(|(_, id, _)| id));
        let size = ids.max().map_or(0, |id| id as usize + 1);
        if size == 0 {
            return Err(TokenizerError::EmptyVocabulary);
        }
        check_size(size)?;
        let mut texts: Vec<&str> = vec![""; size];
        let mut kinds = vec![Kind::Absent; size];
        for (text, id) in entries {
            if kinds[id as usize] == Kind::Absent {
                texts[id as usize] = text;
                kinds[id as usize] = Kind::Normal;
            }
        }
        for (text, id, special) in added {
            texts[id as usize] = text;
            kinds[id as usize] = if special { Kind::Special } else { Kind::Normal };
        }
        let mut bytes = Vec::with_capacity(texts.iter().map(|text| text.len()).sum());
        let mut ends = Vec::with_capacity(size);
        for text in texts {
            coding.append_bytes(text, &mut bytes);
            ends.push(u32::try_from(bytes.len()).map_err(|_| TokenizerError::VocabularyTooLong)?);
        }
        bytes.shrink_to_fit();
        Ok(Self { bytes, ends, kinds })
    }

    /// One more than the largest id.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn bytes(&self, id: u32) -> Option<&[u8]> {
        let index = id as usize;
        if *self.kinds.get(index)? == Kind::Absent {
            return None;
        }
        let start = if index == 0 {
            0
        } else {
            self.ends[index - 1] as usize
        };
        Some(&self.bytes[start..self.ends[index] as usize])
    }

    pub(super) fn is_special(&self, id: u32) -> bool {
        self.kinds.get(id as usize) == Some(&Kind::Special)
    }
}

/// A token with any character outside the byte alphabet stands for its own UTF-8 bytes.
fn append_byte_level(text: &str, out: &mut Vec<u8>) {
    let start = out.len();
    for character in text.chars() {
        let Some(byte) = byte_of(character) else {
            out.truncate(start);
            out.extend_from_slice(text.as_bytes());
            return;
        };
        out.push(byte);
    }
}

/// The byte that a character of GPT-2's byte alphabet stands for: printable Latin-1 stands for
/// itself, the other 68 bytes were moved to U+0100 and up, in order.
pub(super) fn byte_of(character: char) -> Option<u8> {
    let code = character as u32;
    match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => Some(code as u8),
        0x100..=0x120 => Some((code - 0x100) as u8),
        0x121..=0x142 => Some((code - 0x121 + 0x7f) as u8),
        0x143 => Some(0xad),
        _ => None,
    }
}

fn append_sentence_piece(text: &str, out: &mut Vec<u8>) {
    if let Some(byte) = byte_token(text) {
        out.push(byte);
        return;
    }
    for part in text.split_inclusive('▁') {
        match part.strip_suffix('▁') {
            Some(before) => {
                out.extend_from_slice(before.as_bytes());
                out.push(b' ');
            }
            None => out.extend_from_slice(part.as_bytes()),
        }
    }
}

/// The byte of a token such as `<0x0A>`.
fn byte_token(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_byte_alphabet_names_every_byte_once() {
        let mut seen = [false; 256];
        for code in 0..0x400 {
            if let Some(byte) = char::from_u32(code).and_then(byte_of) {
                assert!(!seen[byte as usize], "byte {byte:#x} twice");
                seen[byte as usize] = true;
            }
        }
        assert!(seen.iter().all(|seen| *seen));
        assert_eq!(byte_of('Ġ'), Some(b' '));
        assert_eq!(byte_of('Ċ'), Some(b'\n'));
    }

    #[test]
    fn tokens_stand_for_the_bytes_their_coding_says() {
        let table: &[(Coding, &str, &[u8])] = &[
            (Coding::ByteLevel, "Ġcaf", b" caf"),
            (Coding::ByteLevel, "Ã©", "é".as_bytes()),
            (
                Coding::ByteLevel,
                "<｜end▁of▁sentence｜>",
                "<｜end▁of▁sentence｜>".as_bytes(),
            ),
            (Coding::ByteLevel, "two words", b"two words"),
            (Coding::SentencePiece, "▁the", b" the"),
            (Coding::SentencePiece, "▁▁", b"  "),
            (Coding::SentencePiece, "<0xE4>", &[0xe4]),
            (Coding::SentencePiece, "<0xE>", b"<0xE>"),
            (Coding::Plain, "##ing", b"##ing"),
        ];
        for (coding, text, expected) in table {
            let mut out = Vec::new();
            coding.append_bytes(text, &mut out);
            assert_eq!(out, *expected, "{coding:?} {text}");
        }
    }

    #[test]
    fn a_huge_id_is_refused_before_anything_of_its_size_is_allocated() {
        let error = TokenTable::new(Coding::Plain, [("a", u32::MAX)].into_iter(), [].into_iter())
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "token id 4294967295 is too large, the limit is 1048576"
        );
    }

    #[test]
    fn ids_without_a_token_have_no_bytes() {
        let table = TokenTable::new(
            Coding::Plain,
            [("a", 0), ("c", 2)].into_iter(),
            [].into_iter(),
        )
        .unwrap();
        assert_eq!((table.bytes(0), table.bytes(1)), (Some(&b"a"[..]), None));
        assert_eq!((table.bytes(2), table.bytes(3)), (Some(&b"c"[..]), None));
        assert_eq!(table.len(), 3);
    }
}
