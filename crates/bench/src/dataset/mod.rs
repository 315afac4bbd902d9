//! What is sent: rows made from files, from random numbers, or from both.
//!
//! For the same seed, tokenizer and release every dataset gives the prompts of the reference, bit
//! for bit. Nothing is fetched from a network: files are named, or it is an error.

mod chats;
mod conversations;
mod error;
mod file;
mod image;
mod lengths;
mod mooncake;
mod questions;
mod row;
mod shared_prefix;
mod synthetic;

pub use chats::AgentRules;
pub use conversations::{PairLimits, PairRules};
pub use error::DatasetError;
pub use image::{ImageFormat, ImageRules, NotAResolution, Resolution, Size};
pub use mooncake::MooncakeRules;
pub use row::{Prompt, Row, message};
pub use shared_prefix::SharedPrefixRules;
pub use synthetic::SyntheticRules;

use crate::random::Streams;
use crate::release::Release;
use crate::vocabulary::Vocabulary;
use std::path::Path;

/// Rows, and what is said about them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dataset {
    /// What is sent, in order.
    pub rows: Vec<Row>,
    /// Lines for the person who waits.
    pub notes: Vec<String>,
    /// What is wrong with lines of the file that the reference passes over without a word.
    pub passed_over: Vec<String>,
    /// What to warm up with, when it is not the first row.
    pub warm_up: Option<Row>,
    /// How many sessions the rows belong to.
    pub sessions: usize,
    /// Why no more of the file became rows.
    pub left_out: Option<String>,
}

impl Dataset {
    fn of(rows: Vec<Row>) -> Self {
        Self {
            sessions: rows.len(),
            rows,
            ..Self::default()
        }
    }

    /// Rows with the two lines that say how many tokens they have.
    fn counted(rows: Vec<Row>) -> Self {
        let input: u64 = rows.iter().map(|row| row.asked.prompt_tokens).sum();
        let output: u64 = rows.iter().map(|row| row.asked.output_tokens).sum();
        Self {
            notes: token_notes(input, output),
            ..Self::of(rows)
        }
    }
}

fn token_notes(input: u64, output: u64) -> Vec<String> {
    vec![
        format!("#Input tokens: {input}"),
        format!("#Output tokens: {output}"),
    ]
}

/// What a dataset is made of.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// First turns of a ShareGPT file.
    ShareGpt(PairRules),
    /// First turns of a file of conversations, one per line.
    Custom(PairRules),
    /// Pieces of a ShareGPT file in drawn lengths.
    Random(SyntheticRules),
    /// Running token ids in drawn lengths.
    RandomIds(SyntheticRules),
    /// Groups with a prefix in common.
    SharedPrefix(SharedPrefixRules),
    /// Texts with pictures.
    Image(ImageRules),
    /// A Mooncake trace.
    Mooncake(MooncakeRules),
    /// Recorded chat requests.
    OpenAi {
        /// How many; zero for all.
        count: usize,
        /// Every answer has this length.
        output_tokens: Option<u64>,
    },
    /// Conversations of agents.
    Agents(AgentRules),
    /// Long questions with four choices.
    LongBench {
        /// How many.
        count: usize,
        /// Every answer has this length.
        output_tokens: Option<u64>,
        /// Longer rows are passed over.
        context: Option<u64>,
    },
    /// Questions by entropy.
    SpeedBench {
        /// How many.
        count: usize,
        /// Every answer has this length.
        output_tokens: u64,
        /// Only questions of this kind.
        category: Option<String>,
    },
}

impl Source {
    /// Its name among the options.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ShareGpt(_) => "sharegpt",
            Self::Custom(_) => "custom",
            Self::Random(_) => "random",
            Self::RandomIds(_) => "random-ids",
            Self::SharedPrefix(_) => "generated-shared-prefix",
            Self::Image(_) => "image",
            Self::Mooncake(_) => "mooncake",
            Self::OpenAi { .. } => "openai",
            Self::Agents(_) => "agentic-trace",
            Self::LongBench { .. } => "longbench_v2",
            Self::SpeedBench { .. } => "speed-bench",
        }
    }

    /// What the file of this source is; nothing when it needs none.
    fn file(&self) -> Option<&'static str> {
        match self {
            Self::ShareGpt(_) | Self::Random(_) => {
                Some("a JSON list of conversations in ShareGPT's format")
            }
            Self::Custom(_) => Some("one JSON conversation per line"),
            Self::RandomIds(_) | Self::SharedPrefix(_) | Self::Image(_) => None,
            Self::Mooncake(_) => Some("a Mooncake trace, one JSON record per line"),
            Self::OpenAi { .. } => Some("one JSON chat request per line"),
            Self::Agents(_) => Some("a JSON object with conversations"),
            Self::LongBench { .. } => Some("one LongBench v2 question per line"),
            Self::SpeedBench { .. } => Some("one SPEED-Bench question per line"),
        }
    }

    /// Refuses a source that lacks its file.
    ///
    /// # Errors
    /// When it needs one and none is given.
    pub fn check_path(&self, path: Option<&Path>) -> Result<(), DatasetError> {
        match (path, self.file()) {
            (None, Some(hint)) => Err(DatasetError::NoPath {
                name: self.name(),
                hint,
            }),
            _ => Ok(()),
        }
    }

    /// Makes the rows.
    pub fn load(
        &self,
        path: Option<&Path>,
        vocabulary: &Vocabulary,
        streams: &mut Streams,
        release: Release,
    ) -> Result<Dataset, DatasetError> {
        self.check_path(path)?;
        let path = path.map(Path::to_owned).unwrap_or_default();
        match self {
            Self::ShareGpt(rules) | Self::Custom(rules) => {
                rules.check()?;
                let (pairs, passed_over) = match self {
                    Self::Custom(_) => conversations::custom(&path, &mut streams.python)?,
                    _ => (
                        conversations::share_gpt(&path, &mut streams.python)?,
                        Vec::new(),
                    ),
                };
                let (rows, left_out) = rules.rows(pairs, vocabulary, self.name())?;
                Ok(Dataset {
                    passed_over,
                    left_out,
                    ..Dataset::counted(rows)
                })
            }
            Self::Random(rules) => {
                let lengths = rules.lengths(&mut streams.numpy, vocabulary);
                let pairs = conversations::share_gpt(&path, &mut streams.python)?;
                let left_out = format!(
                    "of {} conversations with two turns, none has a prompt of one token",
                    pairs.len()
                );
                let rows = rules.cut_pairs(&lengths, pairs, vocabulary);
                Ok(Dataset {
                    left_out: Some(left_out),
                    ..with_drawn_counts(rows, &lengths)
                })
            }
            Self::RandomIds(rules) => {
                let lengths = rules.lengths(&mut streams.numpy, vocabulary);
                let rows = rules.running_ids(&lengths, streams, vocabulary);
                Ok(with_drawn_counts(rows, &lengths))
            }
            Self::SharedPrefix(rules) => Ok(rules.load(streams, vocabulary, release)),
            Self::Image(rules) => Ok(rules.load(streams, vocabulary, release)),
            Self::Mooncake(rules) => rules.load(&path, vocabulary),
            Self::OpenAi {
                count,
                output_tokens,
            } => chats::open_ai(&path, *count, *output_tokens, vocabulary),
            Self::Agents(rules) => rules.load(&path),
            Self::LongBench {
                count,
                output_tokens,
                context,
            } => {
                let sizes = (*count, *output_tokens, *context);
                questions::long_bench(&path, sizes, &mut streams.python, vocabulary)
            }
            Self::SpeedBench {
                count,
                output_tokens,
                category,
            } => {
                let sizes = (*count, *output_tokens);
                let category = category.as_deref();
                questions::speed_bench(&path, sizes, category, &mut streams.python, vocabulary)
            }
        }
    }
}

/// One JSON value per line of a file; the line is named where it is wrong.
pub fn read_json_lines<T: serde::de::DeserializeOwned>(
    path: &Path,
) -> Result<Vec<T>, DatasetError> {
    file::read_lines(path, usize::MAX)
}

/// The drawn lengths are told even when the file had too few conversations for them.
fn with_drawn_counts(rows: Vec<Row>, lengths: &synthetic::Lengths) -> Dataset {
    let notes = token_notes(lengths.input.iter().sum(), lengths.output.iter().sum());
    Dataset {
        notes,
        ..Dataset::of(rows)
    }
}
