//! Patterns that end an output, looked for in text that arrives in pieces.
//!
//! The text is never read twice: a search is the set of places in the patterns where it stands. What a piece costs
//! depends on its length and on the size of the patterns, which is limited.

use std::fmt;

use regex_automata::nfa::thompson::{NFA, State, WhichCaptures};
use regex_automata::util::look::Look;
use regex_automata::util::primitives::StateID;
use regex_automata::util::syntax;

/// Most patterns of a request.
const MAX_PATTERNS: usize = 32;

/// Most bytes of a pattern.
const MAX_LENGTH: usize = 256;

/// Most bytes that all patterns may take when they are compiled.
const MAX_SIZE: usize = 1 << 20;

/// Most places where a search may stand.
const MAX_PLACES: usize = 16 << 10;

/// Why patterns are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopPatternError {
    /// There are too many.
    #[error("at most {MAX_PATTERNS} stop_regex patterns are allowed, got {0}")]
    TooMany(usize),
    /// One is too long.
    #[error("stop_regex is {0} bytes, over the {MAX_LENGTH}-byte limit")]
    TooLong(usize),
    /// One is no pattern, or uses what would need to go back in the text.
    #[error("stop_regex {pattern:?} cannot be used: {reason}")]
    Syntax {
        /// Which.
        pattern: String,
        /// In a few words.
        reason: String,
    },
    /// They repeat too much.
    #[error(
        "stop_regex {0:?} is too large when compiled, over the limit of {MAX_PLACES} states or {MAX_SIZE} bytes"
    )]
    TooLarge(Vec<String>),
}

/// Patterns, compiled once for all sequences that they end.
#[derive(Clone)]
pub struct StopPatterns {
    patterns: Vec<String>,
    nfa: NFA,
}

impl StopPatterns {
    /// Checks patterns and compiles those that are more than the text they match; the others are returned beside them.
    /// A sequence ends as soon as any of the compiled ones matches anywhere in its text.
    pub fn beside_plain(
        patterns: Vec<String>,
    ) -> Result<(Vec<String>, Option<Self>), StopPatternError> {
        if patterns.len() > MAX_PATTERNS {
            return Err(StopPatternError::TooMany(patterns.len()));
        }
        let (mut plain, mut others) = (Vec::new(), Vec::new());
        for pattern in patterns {
            let kind = if is_plain(&pattern)? {
                &mut plain
            } else {
                &mut others
            };
            kind.push(pattern);
        }
        let compiled = (!others.is_empty()).then(|| Self::compile(others));
        Ok((plain, compiled.transpose()?))
    }

    fn compile(patterns: Vec<String>) -> Result<Self, StopPatternError> {
        let config = NFA::config()
            .which_captures(WhichCaptures::None)
            .nfa_size_limit(Some(MAX_SIZE));
        let nfa = NFA::compiler().configure(config).build_many(&patterns);
        match nfa {
            Ok(nfa) if nfa.states().len() <= MAX_PLACES => Ok(Self { patterns, nfa }),
            _ => Err(StopPatternError::TooLarge(patterns)),
        }
    }
}

impl fmt::Debug for StopPatterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.patterns.fmt(f)
    }
}

impl PartialEq for StopPatterns {
    fn eq(&self, other: &Self) -> bool {
        self.patterns == other.patterns
    }
}

/// Whether a pattern is nothing but the text it matches.
fn is_plain(pattern: &str) -> Result<bool, StopPatternError> {
    if pattern.len() > MAX_LENGTH {
        return Err(StopPatternError::TooLong(pattern.len()));
    }
    let parsed = syntax::parse(pattern).map_err(|error| {
        // The error shows the pattern and points; its last line says what is wrong.
        let error = error.to_string();
        let reason = error.lines().next_back().unwrap_or_default();
        StopPatternError::Syntax {
            pattern: pattern.to_owned(),
            reason: reason.trim_start_matches("error: ").to_owned(),
        }
    })?;
    let facts = parsed.properties();
    Ok(facts.is_literal() && facts.minimum_len() == Some(pattern.len()))
}

/// A search for patterns in one text. After every piece the answer is the one that a search of the whole text so far
/// would give: `$` is its end, or stands before a line feed that ends it, as in Python.
#[derive(Clone, Debug)]
pub struct PatternSearch {
    patterns: StopPatterns,
    /// Places reached by the last byte; what they lead to depends on the next.
    reached: Places,
    /// The last character, which words and lines may end at.
    last: String,
    begun: bool,
}

impl PatternSearch {
    /// A search that has seen nothing.
    pub fn new(patterns: StopPatterns) -> Self {
        Self {
            patterns,
            reached: Places::default(),
            last: String::new(),
            begun: false,
        }
    }

    /// Takes the next piece and tells which pattern matches now; of several, the one that was named first.
    pub fn push(&mut self, piece: &str) -> Option<&str> {
        let mut found = Found::default();
        let nfa = &self.patterns.nfa;
        if !self.begun {
            self.begun = true;
            self.reached.add(nfa.start_unanchored());
        } else if piece.is_empty() {
            return None;
        }
        let start = self.last.len();
        let text = std::mem::take(&mut self.last) + piece;
        let mut text = Text {
            bytes: text.as_bytes(),
            line_end: false,
        };
        for at in start..text.bytes.len() {
            let is_line_end = at + 1 == text.bytes.len() && text.bytes[at] == b'\n';
            let ending = is_line_end.then(|| self.reached.clone());
            self.reached = self.reached.follow(nfa, text, at, &mut found);
            if let Some(ending) = ending {
                text.line_end = true;
                let last = ending.follow(nfa, text, at, &mut found);
                last.expand(nfa, text, at + 1, &mut found);
            }
        }
        self.reached.expand(nfa, text, text.bytes.len(), &mut found);
        self.last = text.last_character();
        let first = found.first?;
        self.patterns.patterns.get(first).map(String::as_str)
    }
}

/// The first of the patterns that match.
#[derive(Default)]
struct Found {
    first: Option<usize>,
}

/// What can be seen from a place: a character before the piece, and the piece.
#[derive(Clone, Copy)]
struct Text<'a> {
    bytes: &'a [u8],
    /// Whether `$` may stand before the line feed at the end.
    line_end: bool,
}

impl Text<'_> {
    fn satisfies(self, look: Look, nfa: &NFA, at: usize) -> bool {
        let before_line_feed = self.line_end && at + 1 == self.bytes.len();
        look == Look::End && before_line_feed || nfa.look_matcher().matches(look, self.bytes, at)
    }

    fn last_character(self) -> String {
        let text = std::str::from_utf8(self.bytes).unwrap_or_default();
        text.chars()
            .next_back()
            .map(String::from)
            .unwrap_or_default()
    }
}

/// A set of places in the patterns.
#[derive(Clone, Debug, Default)]
struct Places {
    ids: Vec<StateID>,
    seen: Vec<u64>,
}

impl Places {
    fn add(&mut self, id: StateID) {
        let (word, bit) = (id.as_usize() / 64, 1 << (id.as_usize() % 64));
        if word >= self.seen.len() {
            self.seen.resize(word + 1, 0);
        }
        if self.seen[word] & bit == 0 {
            self.seen[word] |= bit;
            self.ids.push(id);
        }
    }

    /// Where these places lead to without reading further; all of them.
    fn expand(&self, nfa: &NFA, text: Text<'_>, at: usize, found: &mut Found) -> Self {
        let mut all = self.clone();
        let mut next = 0;
        while let Some(&id) = all.ids.get(next) {
            next += 1;
            match nfa.state(id) {
                State::Look { look, next } if text.satisfies(*look, nfa, at) => all.add(*next),
                State::Union { alternates } => alternates.iter().for_each(|&id| all.add(id)),
                State::BinaryUnion { alt1, alt2 } => {
                    all.add(*alt1);
                    all.add(*alt2);
                }
                State::Capture { next, .. } => all.add(*next),
                State::Match { pattern_id } => {
                    let pattern = pattern_id.as_usize();
                    let first = found.first.unwrap_or(pattern);
                    found.first = Some(first.min(pattern));
                }
                State::Look { .. }
                | State::ByteRange { .. }
                | State::Sparse(_)
                | State::Dense(_)
                | State::Fail => {}
            }
        }
        all
    }

    /// The places behind the byte at `at`.
    fn follow(&self, nfa: &NFA, text: Text<'_>, at: usize, found: &mut Found) -> Self {
        let byte = text.bytes[at];
        let mut reached = Self::default();
        for &id in &self.expand(nfa, text, at, found).ids {
            let next = match nfa.state(id) {
                State::ByteRange { trans } => trans.matches_byte(byte).then_some(trans.next),
                State::Sparse(transitions) => transitions.matches_byte(byte),
                State::Dense(transitions) => transitions.matches_byte(byte),
                _ => None,
            };
            if let Some(next) = next {
                reached.add(next);
            }
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(patterns: &[&str]) -> PatternSearch {
        let patterns = patterns.iter().map(ToString::to_string).collect();
        PatternSearch::new(StopPatterns::compile(patterns).expect("sound patterns"))
    }

    #[test]
    fn a_pattern_matches_after_the_piece_after_which_python_finds_it() {
        // The last column is what `re.search` of Python 3.11 says of the pieces so far.
        let table: &[(&str, &[&str], Option<usize>)] = &[
            ("\\d+", &["a", "b", "1", "2"], Some(2)),
            ("END\\b", &["x ", "END", "ING"], Some(1)),
            ("END\\b", &["x ", "ENDING", " END ", "x"], Some(2)),
            ("END\\b", &["x ", "EN", "D"], Some(2)),
            ("^b", &["a", "b"], None),
            ("^b", &["b"], Some(0)),
            ("(?m)^b", &["a\n", "b"], Some(1)),
            ("(?m)a$", &["a", "b"], Some(0)),
            ("\\.$", &["a", ".\n", "b"], Some(1)),
            ("\\.$", &["a", ".\n\n", "b"], None),
            ("\\.$", &["a.b", ".b"], None),
            ("$\\nfoo", &["x\n", "foo"], None),
            ("$\\n", &["x\n"], Some(0)),
            (".*", &["a"], Some(0)),
            ("", &[""], Some(0)),
            ("a.c", &["a\n", "c abc"], Some(1)),
            ("(?s)a.c", &["a\n", "c"], Some(1)),
            ("\\bé", &["caf", "é", " é"], Some(2)),
            ("\\B!", &["a!", "!", "!"], Some(1)),
            ("[一-龥]{2}", &["a一", "b", "一", "二"], Some(3)),
            ("(?i)stop", &["sT", "oP"], Some(1)),
            ("(ab|cd){2,3}", &["ab", "c", "d"], Some(2)),
            ("a{3}", &["aa", "b", "aaa"], Some(2)),
            ("\\n\\n+", &["a\n", "\n"], Some(1)),
            ("\\s$", &["a", "b ", "c"], Some(1)),
            ("x*y", &["xxx", "z", "xy"], Some(2)),
            ("\\w+\\s\\w+\\.", &["Hello", " wor", "ld", "."], Some(3)),
            ("(?:a|b)*c$", &["ab", "c\n"], Some(1)),
            ("[^\\x00-\\x7F]", &["abc", "dé"], Some(1)),
            ("^$", &["", "a"], Some(0)),
            ("^$", &["\n"], Some(0)),
            ("\\n$", &["a\n"], Some(0)),
            ("\\n$", &["a\n\n"], Some(0)),
        ];
        for (pattern, pieces, expected) in table {
            let mut search = search(&[pattern]);
            let found = pieces.iter().position(|piece| search.push(piece).is_some());
            assert_eq!(found, *expected, "{pattern:?} in {pieces:?}");
        }
    }

    #[test]
    fn of_patterns_that_match_together_the_first_is_told() {
        let mut all = search(&["x", "b+", "a"]);
        assert_eq!(all.push("cc"), None);
        assert_eq!(all.push("ab"), Some("b+"));
    }

    #[test]
    fn what_cannot_be_used_is_refused_by_name() {
        let new = |patterns: &[&str]| {
            let patterns = patterns.iter().map(ToString::to_string).collect();
            StopPatterns::beside_plain(patterns)
                .map(drop)
                .map_err(|error| error.to_string())
        };
        let long = "a".repeat(257);
        let many = ["a"; 33];
        for (patterns, expected) in [
            (
                &["a", "("][..],
                "stop_regex \"(\" cannot be used: unclosed group",
            ),
            (
                &["a(?=b)"],
                "stop_regex \"a(?=b)\" cannot be used: look-around, including look-ahead and look-behind, is not supported",
            ),
            (
                &["(a)\\1"],
                "stop_regex \"(a)\\\\1\" cannot be used: backreferences are not supported",
            ),
            (&[&long], "stop_regex is 257 bytes, over the 256-byte limit"),
            (&many, "at most 32 stop_regex patterns are allowed, got 33"),
            (
                &["(?:\\w{1000}){1000}"],
                "stop_regex [\"(?:\\\\w{1000}){1000}\"] is too large when compiled, over the limit of 16384 states or 1048576 bytes",
            ),
        ] {
            assert_eq!(new(patterns), Err(expected.to_owned()));
        }
    }

    #[test]
    fn plain_patterns_are_told_apart_and_the_others_compiled() {
        let split = |patterns: &[&str]| {
            let patterns = patterns.iter().map(ToString::to_string).collect();
            let (plain, others) = StopPatterns::beside_plain(patterns).expect("sound patterns");
            (plain, others.map(|others| others.patterns))
        };
        let words =
            |words: &[&str]| -> Vec<String> { words.iter().map(ToString::to_string).collect() };
        assert_eq!(split(&[]), (vec![], None));
        assert_eq!(split(&["END", "你"]), (words(&["END", "你"]), None));
        assert_eq!(split(&["a+"]), (vec![], Some(words(&["a+"]))));
        assert_eq!(
            split(&["b+", "END", "a+"]),
            (words(&["END"]), Some(words(&["b+", "a+"])))
        );
    }

    #[test]
    fn plain_patterns_are_those_that_are_their_own_text() {
        for (pattern, expected) in [
            ("END", true),
            ("你好", true),
            ("\\.", false),
            ("a.c", false),
            ("(?i)a", false),
            ("", false),
        ] {
            assert_eq!(is_plain(pattern), Ok(expected), "{pattern}");
        }
    }

    #[test]
    fn the_worst_pattern_costs_in_proportion_to_the_text() {
        let mut search = search(&["(?:a?){40}{40}b"]);
        for _ in 0..50 {
            assert_eq!(search.push("aaaa"), None);
        }
        assert!(search.push("b").is_some());
    }
}
