//! Stop strings in streamed text: hold back what may begin one, cut what is one, report which.

use std::sync::Arc;

use crate::markers::begun;

/// What a piece of text leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopOutcome {
    /// Text that certainly belongs to no stop string.
    pub emit: String,
    /// The stop string that was completed; the text ends here.
    pub matched: Option<String>,
}

/// Looks for stop strings in a text that arrives in pieces. The result does not depend on how the
/// text is cut: the stop string completed first wins, and of those completed together the longest.
#[derive(Clone, Debug)]
pub struct StopStrings {
    stops: Arc<[String]>,
    keep_matched: bool,
    held: String,
    finished: bool,
}

impl StopStrings {
    /// Stops at any of `stops` (empty ones never match); with `keep_matched` the stop string
    /// itself is emitted too.
    pub fn new(stops: impl Into<Arc<[String]>>, keep_matched: bool) -> Self {
        let mut stops = stops.into();
        if stops.iter().any(String::is_empty) {
            let matching = stops.iter().filter(|stop| !stop.is_empty());
            stops = matching.cloned().collect();
        }
        Self {
            stops,
            keep_matched,
            held: String::new(),
            finished: false,
        }
    }

    /// Takes the next piece. After a match all further text is dropped.
    pub fn push(&mut self, text: &str) -> StopOutcome {
        if self.finished {
            return StopOutcome::default();
        }
        if self.stops.is_empty() {
            return StopOutcome {
                emit: text.to_owned(),
                matched: None,
            };
        }
        self.held.push_str(text);
        if let Some((start, stop)) = self.first_match() {
            let end = if self.keep_matched {
                start + stop.len()
            } else {
                start
            };
            let matched = Some(stop.to_owned());
            self.finished = true;
            self.held.truncate(end);
            return StopOutcome {
                emit: std::mem::take(&mut self.held),
                matched,
            };
        }
        let keep = self.possible_beginning();
        let rest = self.held.split_off(self.held.len() - keep);
        StopOutcome {
            emit: std::mem::replace(&mut self.held, rest),
            matched: None,
        }
    }

    /// Ends the text and returns what was held back.
    pub fn flush(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// The text that is held back now.
    pub fn held(&self) -> &str {
        &self.held
    }

    fn first_match(&self) -> Option<(usize, &str)> {
        self.stops
            .iter()
            .filter_map(|stop| Some((self.held.find(stop.as_str())?, stop.as_str())))
            .min_by_key(|(start, stop)| (start + stop.len(), *start))
    }

    /// Length of the longest end of the held text that begins a stop string.
    fn possible_beginning(&self) -> usize {
        self.stops
            .iter()
            .map(|stop| begun(&self.held, stop))
            .max()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds the pieces and returns everything emitted, the end included, and the match.
    fn run(stops: &[&str], keep: bool, pieces: &[&str]) -> (String, Option<String>) {
        let mut search = StopStrings::new(
            stops.iter().map(ToString::to_string).collect::<Vec<_>>(),
            keep,
        );
        let mut said = String::new();
        let mut matched = None;
        for piece in pieces {
            let outcome = search.push(piece);
            said.push_str(&outcome.emit);
            matched = matched.or(outcome.matched);
        }
        said.push_str(&search.flush());
        (said, matched)
    }

    #[test]
    fn texts_end_at_the_stop_string_completed_first() {
        let table: &[(&[&str], &str, &str, Option<&str>)] = &[
            (&["\n\n"], "one\ntwo\n\nthree", "one\ntwo", Some("\n\n")),
            (&["END"], "no such thing EN", "no such thing EN", None),
            (&["abc", "b"], "xabc", "xa", Some("b")),
            (&["b", "ab"], "xab", "x", Some("ab")),
            (&["aab"], "aaab", "a", Some("aab")),
            (&["你好"], "说你好。", "说", Some("你好")),
            (&[], "anything", "anything", None),
            (&[""], "anything", "anything", None),
        ];
        for (stops, text, said, matched) in table {
            let expected = ((*said).to_owned(), matched.map(str::to_owned));
            assert_eq!(run(stops, false, &[text]), expected, "{text} whole");
            let letters: Vec<String> = text.chars().map(String::from).collect();
            let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
            assert_eq!(run(stops, false, &letters), expected, "{text} by letters");
        }
    }

    #[test]
    fn the_stop_string_is_kept_when_asked_for() {
        let (said, matched) = run(&["</s>"], true, &["one <", "/s> two"]);
        assert_eq!(
            (said.as_str(), matched.as_deref()),
            ("one </s>", Some("</s>"))
        );
    }

    #[test]
    fn what_may_begin_a_stop_string_is_held_back_and_nothing_else() {
        let mut search = StopStrings::new(vec!["User:".to_owned()], false);
        assert_eq!(search.push("Hello Us").emit, "Hello ");
        assert_eq!(search.held(), "Us");
        assert_eq!(search.push("e it").emit, "Use it");
        assert_eq!(search.held(), "");
    }

    #[test]
    fn nothing_is_said_after_a_match() {
        let mut search = StopStrings::new(vec!["x".to_owned()], false);
        assert_eq!(search.push("ax").matched.as_deref(), Some("x"));
        assert_eq!(search.push("more"), StopOutcome::default());
        assert_eq!(search.flush(), "");
    }
}
