//! Counting tokens word by word: words repeat, and how many tokens a word has does not change.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use text::Tokenizer;

/// Words longer than this are counted anew each time.
const LONGEST_WORD: usize = 48;
/// No more words than this are remembered.
const MOST_WORDS: usize = 200_000;
/// Encoded whole and word by word to see whether both are the same.
const PROBES: [&str; 3] = [
    "The sea is calm and we sail on",
    " it's a Test (of The thing), say 2 of\n\n them  and I",
    "f x y naïve été to: a_b c",
];

/// How many tokens each word has that was met so far.
#[derive(Debug, Default)]
pub(super) struct WordCounts {
    known: Mutex<Known>,
}

/// Words met so far.
#[derive(Debug, Default)]
struct Known {
    all: HashMap<Box<str>, u32>,
    recent: Recent,
}

/// Short words met lately: a word and its count at the place that belongs to the word.
///
/// It saves the hashing of most words; what a text does to it costs no more than that.
#[derive(Debug)]
struct Recent(Box<[(u64, u32); 1 << RECENT_BITS]>);

const RECENT_BITS: u32 = 9;

impl Default for Recent {
    fn default() -> Self {
        Self(Box::new([(0, 0); 1 << RECENT_BITS]))
    }
}

impl Recent {
    /// The bytes and length of a word of one to seven bytes.
    fn key(word: &str) -> Option<u64> {
        let mut key = [0; 8];
        key.get_mut(..word.len())?.copy_from_slice(word.as_bytes());
        let key = u64::from_le_bytes(key);
        (1..8)
            .contains(&word.len())
            .then_some(key | (word.len() as u64) << 56)
    }

    fn place(key: u64) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT_BITS)) as usize
    }
}

impl WordCounts {
    /// Nothing when a token may reach over the space between two words: then words cannot be
    /// counted by themselves.
    pub(super) fn of(tokenizer: &Tokenizer, ids: &[u32]) -> Option<Self> {
        let reaches_over = |id: &u32| tokenizer.token_bytes(*id).is_some_and(holds_end_of_word);
        if ids.iter().any(reaches_over) {
            return None;
        }
        let encode = |text: &str| tokenizer.encode(text, false).ok();
        let separable = PROBES.iter().all(|probe| {
            let apart: Option<Vec<Vec<u32>>> = Words::of(probe).map(encode).collect();
            encode(probe) == apart.map(|words| words.concat())
        });
        separable.then(Self::default)
    }

    /// The tokens of a text; `count` is asked about words that are new.
    pub(super) fn count(&self, text: &str, count: impl Fn(&str) -> usize) -> usize {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sum = 0;
        for word in Words::of(text) {
            sum += known.count(word, &count);
        }
        sum
    }
}

impl Known {
    fn count(&mut self, word: &str, count: impl Fn(&str) -> usize) -> usize {
        let key = Recent::key(word);
        let place = key.map(Recent::place);
        if let (Some(key), Some(place)) = (key, place)
            && self.recent.0[place].0 == key
        {
            return self.recent.0[place].1 as usize;
        }
        let tokens = self.look_up(word, count);
        if let (Some(key), Some(place)) = (key, place) {
            self.recent.0[place] = (key, tokens as u32);
        }
        tokens
    }

    fn look_up(&mut self, word: &str, count: impl Fn(&str) -> usize) -> usize {
        if let Some(tokens) = self.all.get(word) {
            return *tokens as usize;
        }
        let tokens = count(word);
        if word.len() <= LONGEST_WORD && self.all.len() < MOST_WORDS {
            self.all.insert(word.into(), tokens as u32);
        }
        tokens
    }
}

/// Whether a token has a letter and then a space, be it written as one or as the mark for one.
fn holds_end_of_word(token: &[u8]) -> bool {
    let letters = token.iter().enumerate();
    letters
        .filter(|(_, byte)| byte.is_ascii_alphabetic())
        .any(|(at, _)| {
            let rest = &token[at + 1..];
            rest.starts_with(b" ") || rest.starts_with("▁".as_bytes())
        })
}

/// A text cut before each space that stands between two letters.
struct Words<'a> {
    text: &'a str,
    spaces: memchr::Memchr<'a>,
    from: usize,
}

impl<'a> Words<'a> {
    fn of(text: &'a str) -> Self {
        Self {
            text,
            spaces: memchr::memchr_iter(b' ', text.as_bytes()),
            from: 0,
        }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let from = self.from;
        if from == self.text.len() {
            return None;
        }
        let bytes = self.text.as_bytes();
        let letter = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_alphabetic);
        let between = |at: &usize| *at > from && letter(at - 1) && letter(at + 1);
        self.from = self.spaces.find(between).unwrap_or(bytes.len());
        Some(&self.text[from..self.from])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_words_and_nowhere_else() {
        let words: Vec<&str> = Words::of("The sea, is  calm and  é a 2 b").collect();
        assert_eq!(words, ["The", " sea, is  calm", " and  é a 2 b"]);
        assert_eq!(Words::of("").count(), 0);
    }

    #[test]
    fn tokens_that_reach_over_a_space_are_noticed() {
        for (token, reaches) in [
            (" the", false),
            ("e ", true),
            ("of▁the", true),
            ("  ", false),
            (", ", false),
        ] {
            assert_eq!(holds_end_of_word(token.as_bytes()), reaches, "{token:?}");
        }
    }

    #[test]
    fn counts_word_by_word_are_those_of_the_whole() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        let tokenizer = Tokenizer::from_folder(&folder.join("tokenizer")).unwrap();
        let ids: Vec<u32> = (0..tokenizer.vocab_size() as u32).collect();
        let counts = WordCounts::of(&tokenizer, &ids).unwrap();
        let whole = |text: &str| tokenizer.encode(text, false).unwrap().len();
        let conversations = std::fs::read_to_string(folder.join("conversations.json")).unwrap();
        for text in conversations.lines().chain(PROBES) {
            for _ in 0..2 {
                assert_eq!(counts.count(text, whole), whole(text), "{text:?}");
            }
        }
    }
}
