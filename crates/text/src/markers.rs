//! Markers such as `<think>` in text that arrives in pieces.

/// Length of the longest end of `text` that begins `marker` without completing it.
pub(crate) fn begun(text: &str, marker: &str) -> usize {
    let (text, marker) = (text.as_bytes(), marker.as_bytes());
    let most = text.len().min(marker.len().saturating_sub(1));
    (1..=most)
        .rev()
        .find(|length| text.ends_with(&marker[..*length]))
        .unwrap_or(0)
}

/// Text up to a marker, or up to what may become one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Text that certainly holds no marker.
    pub(crate) before: String,
    /// Which marker follows; it has been taken away. Absent: wait for more text.
    pub(crate) marker: Option<usize>,
}

/// Cuts a stream of text at markers, which may change from cut to cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cutter {
    text: String,
    /// How much of the text has been taken.
    taken: usize,
}

impl Cutter {
    pub(crate) fn push(&mut self, text: &str) {
        self.text.drain(..self.taken);
        self.taken = 0;
        self.text.push_str(text);
    }

    /// Takes the text before the first of `markers`, and the marker.
    pub(crate) fn cut(&mut self, markers: &[&str]) -> Cut {
        let held = self.held();
        let found = markers
            .iter()
            .enumerate()
            .filter_map(|(index, marker)| Some((held.find(marker)?, index)))
            .min_by_key(|(at, index)| (*at, usize::MAX - markers[*index].len()));
        if let Some((at, index)) = found {
            let before = held[..at].to_owned();
            self.taken += at + markers[index].len();
            return Cut {
                before,
                marker: Some(index),
            };
        }
        let keep = markers
            .iter()
            .map(|marker| begun(held, marker))
            .max()
            .unwrap_or(0);
        let before = held[..held.len() - keep].to_owned();
        self.taken = self.text.len() - keep;
        Cut {
            before,
            marker: None,
        }
    }

    /// Takes the next character, whatever it is.
    pub(crate) fn character(&mut self) -> Option<char> {
        let character = self.held().chars().next()?;
        self.taken += character.len_utf8();
        Some(character)
    }

    /// Puts the character taken last back.
    pub(crate) fn put_back(&mut self, character: char) {
        self.taken -= character.len_utf8();
    }

    /// Drops white space; false when there is nothing behind it yet.
    pub(crate) fn skip_space(&mut self) -> bool {
        self.taken = self.text.len() - self.held().trim_start().len();
        !self.held().is_empty()
    }

    /// What has been pushed and not been taken.
    pub(crate) fn held(&self) -> &str {
        &self.text[self.taken..]
    }

    /// Takes everything that is left.
    pub(crate) fn rest(&mut self) -> String {
        let rest = self.held().to_owned();
        self.taken = self.text.len();
        rest
    }
}

/// Lets text through but keeps white space at its end back until it is known what follows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate {
    space: String,
}

impl Gate {
    /// The text that may be said now.
    pub(crate) fn pass(&mut self, text: &str) -> String {
        let body = text.trim_end().len();
        if body == 0 {
            self.space.push_str(text);
            return String::new();
        }
        let mut said = std::mem::take(&mut self.space);
        said.push_str(&text[..body]);
        self.space.push_str(&text[body..]);
        said
    }

    /// Gives up the white space held back: say it, or drop it.
    pub(crate) fn space(&mut self) -> String {
        std::mem::take(&mut self.space)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_at_the_first_marker_however_it_arrives() {
        let markers = ["<a>", "</a>", "<a>b"];
        for step in 1..6 {
            let mut cutter = Cutter::default();
            let (mut parts, mut text) = (Vec::new(), String::new());
            let characters: Vec<char> = "x<<a>y</a".chars().chain(">z<".chars()).collect();
            for piece in characters.chunks(step) {
                cutter.push(&piece.iter().collect::<String>());
                loop {
                    let cut = cutter.cut(&markers[..2]);
                    text.push_str(&cut.before);
                    let Some(marker) = cut.marker else { break };
                    parts.push((std::mem::take(&mut text), marker));
                }
            }
            assert_eq!(parts, [("x<".to_owned(), 0), ("y".to_owned(), 1)]);
            assert_eq!(text + &cutter.rest(), "z<");
        }
    }

    #[test]
    fn the_gate_keeps_trailing_space_back() {
        let mut gate = Gate::default();
        assert_eq!(gate.pass("a b \n"), "a b");
        assert_eq!(gate.pass(" "), "");
        assert_eq!(gate.pass("c"), " \n c");
        assert_eq!(gate.pass(" "), "");
        assert_eq!(gate.space(), " ");
    }
}
