//! One run: a load on a subject, its figures, and where every number comes from.

use std::collections::BTreeMap;

use bench::record::RequestRecord;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::command_line::CommandLine;
use crate::figures::Figures;
use crate::finding::Finding;
use crate::machine::Machine;

/// One run of one load on one subject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Twelve hexadecimal digits.
    pub id: String,
    /// The server under test.
    pub subject: SubjectFacts,
    /// What was put on it.
    pub load: LoadFacts,
    /// The how-manieth run of this load on this subject, from 1.
    pub repeat: u32,
    /// Where it comes from.
    pub origin: Origin,
    /// How it ended.
    pub outcome: Outcome,
    /// What was measured.
    pub figures: Figures,
    /// Where it ran, when that is known.
    pub machine: Option<Machine>,
    /// What a reader must know about it.
    pub findings: Vec<Finding>,
}

/// A run with its requests, as far as they are known.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// The run.
    pub run: Run,
    /// Its requests; none when only figures were kept.
    pub records: Vec<RequestRecord>,
}

/// What is known of a server under test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SubjectFacts {
    /// Its name among the arms.
    pub name: String,
    /// The model it serves.
    pub model: Option<String>,
    /// How it was started.
    pub command: Option<CommandLine>,
    /// Its environment as far as it was set for it.
    pub environment: BTreeMap<String, String>,
    /// Versions of what it is made of.
    pub versions: BTreeMap<String, String>,
    /// What it said about itself when it was ready.
    pub info: Option<Value>,
}

/// What is known of a load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadFacts {
    /// Its name; runs of one name are compared with each other.
    pub name: String,
    /// The client's command line.
    pub command: Option<String>,
    /// The client's options by their names in an echo (`num_prompts`).
    pub settings: BTreeMap<String, Value>,
}

/// Where a run comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Read from a text that somebody else's tool printed.
    Imported {
        /// The file's name.
        file: String,
        /// The line on which its table or object begins, from 1.
        line: usize,
        /// Headings around it, outermost first.
        section: Vec<String>,
        /// The remark before it.
        note: Option<String>,
        /// The layout of its table, or `jsonl`.
        layout: String,
    },
    /// Measured by a session of the laboratory.
    Measured {
        /// The session.
        session: String,
        /// Its place in the session's order, from 0.
        cell: usize,
        /// When it began, in UTC.
        started: String,
        /// Seconds until the server was ready.
        ready_after: f64,
        /// The sign by which that was seen.
        #[serde(default)]
        ready_by: String,
        /// Whether the server ended by itself when asked; nothing when it was not asked then.
        #[serde(default)]
        ended_by_itself: Option<bool>,
        /// Whether the server had served other runs before.
        server: ServerUse,
    },
}

/// Whether a server was started for one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerUse {
    /// It was started for this run.
    Fresh,
    /// It had served other runs.
    Kept,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// With figures.
    Finished,
    /// Without.
    Failed {
        /// Why, in a sentence.
        reason: String,
        /// The server's exit code, when it ended by itself.
        exit_code: Option<i32>,
        /// The last lines of its log.
        last_lines: Vec<String>,
    },
}

impl Run {
    /// Whether it ended with figures.
    pub fn finished(&self) -> bool {
        self.outcome == Outcome::Finished
    }

    /// Eight digits, enough for people.
    pub fn short_id(&self) -> &str {
        self.id.get(..8).unwrap_or(&self.id)
    }

    /// When it was measured, or where it was read.
    pub fn place(&self) -> String {
        match &self.origin {
            Origin::Imported { file, line, .. } => format!("{file}:{line}"),
            Origin::Measured {
                session, started, ..
            } => format!("{started} {session}"),
        }
    }

    /// The remark that came with it.
    pub fn note(&self) -> Option<&str> {
        match &self.origin {
            Origin::Imported { note, .. } => note.as_deref(),
            Origin::Measured { .. } => None,
        }
    }
}

impl LoadFacts {
    /// An option's number.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.settings.get(name)? {
            Value::Number(number) => number.as_f64(),
            Value::String(word) => word.parse().ok(),
            _ => None,
        }
    }

    /// An option's word.
    pub fn word(&self, name: &str) -> Option<&str> {
        self.settings.get(name)?.as_str()
    }

    /// The most requests under way, if there is a limit.
    pub fn limit(&self) -> Option<f64> {
        self.number("max_concurrency")
    }

    /// Whether all requests were sent at once.
    pub fn is_burst(&self) -> bool {
        self.number("request_rate").is_some_and(f64::is_infinite)
    }
}

/// An identifier made of what a run is made of: the same twice for the same thing.
pub fn identifier(parts: &[&str]) -> String {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let digest = hash.finalize();
    let digits = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let letters = digits.filter_map(|digit| char::from_digit(digit.into(), 16));
    letters.take(12).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_tell_parts_apart() {
        assert_eq!(identifier(&["a", "b"]), identifier(&["a", "b"]));
        assert_ne!(identifier(&["a", "b"]), identifier(&["ab"]));
        assert_eq!(identifier(&["a"]).len(), 12);
    }
}
