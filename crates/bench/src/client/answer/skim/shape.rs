//! What the events of one answer have in common.

use super::walk::Walk;

/// Events longer than this beside their parts are not worth remembering.
const LONGEST: usize = 4096;
const MOST_PARTS: usize = 4;

/// A value that differs from event to event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The text.
    Text,
    /// The count of tokens.
    Count,
    /// What is of no interest.
    Other,
}

/// One event as it was, less those of its values that differ from event to event.
///
/// An event that differs from another only in these says the same otherwise, so it is enough to
/// look at them.
#[derive(Debug, Default)]
pub(in crate::client::answer) struct Shape {
    words: Vec<u8>,
    /// The values that were left out, and where among the words.
    parts: Vec<(usize, Part)>,
}

/// Where the parts of an event are while it is walked over.
#[derive(Debug, Default)]
pub(super) struct Parts {
    found: [Option<(Part, usize, usize)>; MOST_PARTS],
    count: usize,
}

impl Parts {
    /// Whether there is one and no more.
    pub(super) fn is_one(&self) -> bool {
        self.count == 1
    }

    /// Walks over a part by `pass` and notes where it is.
    pub(super) fn note<'a, T>(
        &mut self,
        part: Part,
        walk: &mut Walk<'a>,
        pass: impl FnOnce(&mut Walk<'a>) -> Option<T>,
    ) -> Option<T> {
        let left = walk.rest.len();
        let passed = pass(walk)?;
        if let Some(place) = self.found.get_mut(self.count) {
            *place = Some((part, left, walk.rest.len()));
        }
        self.count += 1;
        Some(passed)
    }
}

impl Shape {
    /// Remembers an event whose parts lie where they were noted.
    pub(super) fn learn(&mut self, event: &[u8], parts: &Parts) {
        self.words.clear();
        self.parts.clear();
        if parts.count > MOST_PARTS {
            return;
        }
        let mut from = 0;
        for (part, left, left_after) in parts.found.iter().flatten() {
            let start = event.len() - left;
            self.words.extend_from_slice(&event[from..start]);
            self.parts.push((self.words.len(), *part));
            from = event.len() - left_after;
        }
        self.words.extend_from_slice(&event[from..]);
        if self.words.len() > LONGEST {
            *self = Self::default();
        }
    }

    /// Looks at a line that starts with an event of this shape: `visit` must pass over each part.
    /// The event's length; nothing when it has another shape or goes on beyond the line.
    pub(super) fn fit<'a>(
        &self,
        line: &'a [u8],
        mut visit: impl FnMut(Part, &mut Walk<'a>) -> Option<()>,
    ) -> Option<usize> {
        let mut walk = Walk { rest: line };
        let mut from = 0;
        for (at, part) in &self.parts {
            walk.rest = walk.rest.strip_prefix(&self.words[from..*at])?;
            let left = walk.rest;
            if left.first().is_none_or(u8::is_ascii_whitespace) {
                return None;
            }
            visit(*part, &mut walk)?;
            // Strings and numbers end on their line, lists need not.
            let passed = &left[..left.len() - walk.rest.len()];
            if *part == Part::Other && passed.contains(&b'\n') {
                return None;
            }
            from = *at;
        }
        let rest = walk.rest.strip_prefix(&self.words[from..])?;
        (from > 0).then_some(line.len() - rest.len())
    }
}
