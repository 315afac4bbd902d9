//! Token ids to text as they arrive, never cutting a character.

use crate::tokenizer::Tokenizer;

/// Ids before the first new one that can still matter to it: a character has at most four bytes.
const CONTEXT: usize = 6;

/// Turns one stream of tokens into text. The pieces joined are the text of all ids decoded at
/// once; a piece is empty while a character is incomplete.
#[derive(Clone, Debug)]
pub struct Detokenizer {
    tokenizer: Tokenizer,
    skip_special: bool,
    piece: String,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    /// The vocabulary is made of bytes: only an unfinished character is kept.
    Bytes {
        unfinished: Vec<u8>,
        strip_space: bool,
    },
    /// How a token reads depends on the one before: the last tokens are decoded again.
    Window { ids: Vec<u32>, said: usize },
}

impl Detokenizer {
    /// A detokenizer at the beginning of a text.
    pub fn new(tokenizer: &Tokenizer, skip_special: bool) -> Self {
        let state = if tokenizer.decodes_bytes() {
            State::Bytes {
                unfinished: Vec::new(),
                strip_space: tokenizer.strips_leading_space(),
            }
        } else {
            State::Window {
                ids: Vec::new(),
                said: 0,
            }
        };
        Self {
            tokenizer: tokenizer.clone(),
            skip_special,
            piece: String::new(),
            state,
        }
    }

    /// A detokenizer in the middle of a text: what follows `prompt` reads as it would behind it,
    /// and the prompt itself is not said again.
    pub fn after_prompt(tokenizer: &Tokenizer, skip_special: bool, prompt: &[u32]) -> Self {
        let mut detokenizer = Self::new(tokenizer, skip_special);
        for id in &prompt[prompt.len().saturating_sub(CONTEXT)..] {
            detokenizer.push(*id);
        }
        detokenizer
    }

    /// Takes the next token and returns the text that it completes.
    pub fn push(&mut self, id: u32) -> &str {
        self.piece.clear();
        if self.skip_special && self.tokenizer.is_special(id) {
            return &self.piece;
        }
        match &mut self.state {
            State::Bytes {
                unfinished,
                strip_space,
            } => {
                let mut bytes = self.tokenizer.token_bytes(id).unwrap_or_default();
                if *strip_space && !bytes.is_empty() {
                    *strip_space = false;
                    bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
                }
                unfinished.extend_from_slice(bytes);
                take_characters(unfinished, &mut self.piece);
            }
            State::Window { ids, said } => {
                ids.push(id);
                advance(
                    &self.tokenizer,
                    self.skip_special,
                    ids,
                    said,
                    &mut self.piece,
                );
            }
        }
        &self.piece
    }

    /// Ends the text: what is left of an unfinished character becomes U+FFFD.
    pub fn flush(&mut self) -> &str {
        self.piece.clear();
        match &mut self.state {
            State::Bytes { unfinished, .. } => {
                self.piece.push_str(&String::from_utf8_lossy(unfinished));
                unfinished.clear();
            }
            State::Window { ids, said } => {
                say(
                    &self.tokenizer,
                    self.skip_special,
                    ids,
                    said,
                    &mut self.piece,
                );
            }
        }
        &self.piece
    }
}

/// Moves whole characters from `bytes` to `out`; what can never become one is said as U+FFFD.
fn take_characters(bytes: &mut Vec<u8>, out: &mut String) {
    let mut done = 0;
    while done < bytes.len() {
        match std::str::from_utf8(&bytes[done..]) {
            Ok(text) => {
                out.push_str(text);
                done = bytes.len();
            }
            Err(error) => {
                let valid = done + error.valid_up_to();
                out.push_str(&String::from_utf8_lossy(&bytes[done..valid]));
                done = valid;
                let Some(length) = error.error_len() else {
                    break;
                };
                out.push(char::REPLACEMENT_CHARACTER);
                done += length;
            }
        }
    }
    bytes.drain(..done);
}

/// Says what the new ids add, unless the last character looks unfinished. More ids than a
/// character has bytes are never held back.
fn advance(
    tokenizer: &Tokenizer,
    skip_special: bool,
    ids: &mut Vec<u32>,
    said: &mut usize,
    out: &mut String,
) {
    let unfinished = tokenizer
        .decode(ids, skip_special)
        .ends_with(char::REPLACEMENT_CHARACTER);
    if unfinished && ids.len() - *said < 4 {
        return;
    }
    say(tokenizer, skip_special, ids, said, out);
}

fn say(
    tokenizer: &Tokenizer,
    skip_special: bool,
    ids: &mut Vec<u32>,
    said: &mut usize,
    out: &mut String,
) {
    let before = tokenizer.decode(&ids[..*said], skip_special);
    let whole = tokenizer.decode(ids, skip_special);
    out.push_str(&whole[common_length(&before, &whole)..]);
    if out.is_empty() {
        return;
    }
    ids.drain(..*said);
    *said = ids.len();
}

/// Bytes that two texts have in common at their beginnings, in whole characters.
fn common_length(left: &str, right: &str) -> usize {
    let same = left
        .chars()
        .zip(right.chars())
        .take_while(|(left, right)| left == right);
    same.map(|(character, _)| character.len_utf8()).sum()
}
