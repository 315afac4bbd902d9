//! Mooncake's traces: when requests came, how long they were, which blocks they shared.

use super::file;
use super::{Dataset, DatasetError, Row, message};
use crate::put::put;
use crate::vocabulary::Vocabulary;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::path::Path;

/// How a Mooncake trace is made into prompts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MooncakeRules {
    /// How many lines of the trace are used.
    pub count: usize,
    /// Rounds per session, sent in one burst.
    pub rounds: usize,
}

/// An answer longer than this is a mistake in the trace: its text is repeated in later rounds.
const LONGEST_OUTPUT: u64 = 1 << 20;

#[derive(Deserialize)]
struct Record {
    timestamp: f64,
    #[serde(default)]
    hash_ids: Vec<Value>,
    #[serde(default = "usual_output", deserialize_with = "output_length")]
    output_length: u64,
}

fn output_length<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let length = u64::deserialize(deserializer)?;
    if length > LONGEST_OUTPUT {
        let reason = format!("output_length {length} is more than {LONGEST_OUTPUT}");
        return Err(D::Error::custom(reason));
    }
    Ok(length)
}

fn usual_output() -> u64 {
    256
}

impl Record {
    /// Each block id stands for a block of text that is the same wherever the id is.
    fn blocks(&self, words: usize) -> String {
        let filler = vec!["hi"; words].join(" ");
        let mut text = String::new();
        for id in &self.hash_ids {
            put(&mut text, format_args!("{id}{filler}"));
        }
        text
    }

    fn warm_up(&self, vocabulary: &Vocabulary) -> Row {
        let blocks = self.blocks(512);
        let prompt = format!("{blocks}Can you tell me a detailed story in 1000 words?");
        let prompt_tokens = vocabulary.encode(&prompt).len() as u64;
        Row::text(prompt, prompt_tokens, self.output_length)
    }
}

impl MooncakeRules {
    pub(super) fn load(
        &self,
        path: &Path,
        vocabulary: &Vocabulary,
    ) -> Result<Dataset, DatasetError> {
        let mut records: Vec<Record> = file::read_lines(path, self.count)?;
        let Some(first) = records.first() else {
            let reason = "the trace has no lines".to_owned();
            return Err(DatasetError::Empty {
                path: path.to_owned(),
                reason,
            });
        };
        let warm_up = Some(first.warm_up(vocabulary));
        records.sort_by(|left, right| left.timestamp.total_cmp(&right.timestamp));
        let rows = records
            .iter()
            .flat_map(|record| self.session(record, vocabulary))
            .collect();
        Ok(Dataset {
            warm_up,
            sessions: records.len(),
            ..Dataset::of(rows)
        })
    }

    fn session(&self, record: &Record, vocabulary: &Vocabulary) -> Vec<Row> {
        let question = record.blocks(128) + "Tell me a story based on this context.";
        let reply = vec!["story"; record.output_length as usize].join(" ");
        let mut history = Vec::new();
        (1..=self.rounds)
            .map(|round| {
                history.push(message("user", &format!("Round {round}: {question}")));
                let prompt = match vocabulary.render(&history) {
                    Some(Ok(rendered)) => rendered,
                    _ => plain(&history),
                };
                history.push(message("assistant", &reply));
                let prompt_tokens = vocabulary.encode(&prompt).len() as u64;
                let mut row = Row::text(prompt, prompt_tokens, record.output_length);
                row.timestamp = Some(record.timestamp);
                row
            })
            .collect()
    }
}

/// A conversation without a template: a line per message.
fn plain(history: &[Value]) -> String {
    let line = |message: &Value| {
        let text = |key: &str| message[key].as_str().unwrap_or_default().to_owned();
        format!("{}: {}", text("role"), text("content"))
    };
    history.iter().map(line).collect::<Vec<_>>().join("\n")
}
