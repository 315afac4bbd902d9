//! Prompts of drawn lengths: pieces of real conversations, or running token ids.

use super::conversations::Pair;
use super::{Prompt, Row, lengths};
use crate::random::{NumpyRandom, Streams};
use crate::vocabulary::Vocabulary;

/// The shape of synthetic prompts.
#[derive(Clone, Debug, PartialEq)]
pub struct SyntheticRules {
    /// How many.
    pub count: usize,
    /// The longest prompt.
    pub input: u64,
    /// The longest answer.
    pub output: u64,
    /// The share of those below which no length falls.
    pub share: f64,
    /// Whether prompts are sent as token ids.
    pub as_ids: bool,
    /// Whether room is left for the tokens that servers put around a text.
    pub leave_room: bool,
}

/// Lengths of all rows, drawn before anything else.
pub(super) struct Lengths {
    pub(super) input: Vec<u64>,
    pub(super) output: Vec<u64>,
}

impl SyntheticRules {
    pub(super) fn lengths(&self, random: &mut NumpyRandom, vocabulary: &Vocabulary) -> Lengths {
        let mut input = lengths::draw(random, self.input, self.share, self.count);
        let output = lengths::draw(random, self.output, self.share, self.count);
        if self.leave_room && !self.as_ids {
            let around = vocabulary.tokens_around() as u64;
            for length in &mut input {
                *length = length.saturating_sub(around).max(1);
            }
        }
        Lengths { input, output }
    }

    /// Rows of conversation text, cut or repeated to the drawn lengths.
    pub(super) fn cut_pairs(
        &self,
        lengths: &Lengths,
        pairs: Vec<Pair>,
        vocabulary: &Vocabulary,
    ) -> Vec<Row> {
        let mut rows = Vec::with_capacity(self.count);
        for pair in pairs {
            if rows.len() == self.count {
                break;
            }
            let ids = vocabulary.encode(&pair.prompt);
            if ids.is_empty() {
                continue;
            }
            let row = rows.len();
            let length = lengths.input[row] as usize;
            let ids: Vec<u32> = ids.iter().copied().cycle().take(length).collect();
            rows.push(self.row(ids, lengths, row, vocabulary));
        }
        rows
    }

    /// Rows of running ids, each from an offset of its own.
    pub(super) fn running_ids(
        &self,
        lengths: &Lengths,
        streams: &mut Streams,
        vocabulary: &Vocabulary,
    ) -> Vec<Row> {
        let size = vocabulary.base_size() as u64;
        let offsets: Vec<u64> = (0..self.count)
            .map(|_| streams.numpy.integer(0, size))
            .collect();
        (0..self.count)
            .map(|row| {
                let first = offsets[row] + row as u64;
                let ids = (0..lengths.input[row]).map(|place| ((first + place) % size) as u32);
                self.row(ids.collect(), lengths, row, vocabulary)
            })
            .collect()
    }

    fn row(&self, ids: Vec<u32>, lengths: &Lengths, row: usize, vocabulary: &Vocabulary) -> Row {
        let prompt = if self.as_ids {
            Prompt::Tokens(ids)
        } else {
            Prompt::Text(vocabulary.decode(&ids))
        };
        Row::new(prompt, lengths.input[row], lengths.output[row])
    }
}
