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
    known: Mutex<HashMap<Box<str>, u32>>,
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
            let apart: Option<Vec<Vec<u32>>> = Words(probe).map(encode).collect();
            encode(probe) == apart.map(|words| words.concat())
        });
        separable.then(Self::default)
    }

    /// The tokens of a text; `count` is asked about words that are new.
    pub(super) fn count(&self, text: &str, count: impl Fn(&str) -> usize) -> usize {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sum = 0;
        for word in Words(text) {
            if let Some(tokens) = known.get(word) {
                sum += *tokens as usize;
                continue;
            }
            let tokens = count(word);
            sum += tokens;
            if word.len() <= LONGEST_WORD && known.len() < MOST_WORDS {
                known.insert(word.into(), tokens as u32);
            }
        }
        sum
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
struct Words<'a>(&'a str);

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.0.is_empty() {
            return None;
        }
        let bytes = self.0.as_bytes();
        let letter = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_alphabetic);
        let end = memchr::memchr_iter(b' ', bytes)
            .find(|at| *at > 0 && letter(at - 1) && letter(at + 1))
            .unwrap_or(bytes.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_words_and_nowhere_else() {
        let words: Vec<&str> = Words("The sea, is  calm and  é a 2 b").collect();
        assert_eq!(words, ["The", " sea, is  calm", " and  é a 2 b"]);
        assert_eq!(Words("").count(), 0);
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
