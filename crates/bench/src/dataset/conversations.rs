//! Prompt and answer pairs from files of conversations.

use super::file;
use super::{DatasetError, Row, message};
use crate::put::put;
use crate::random::PythonRandom;
use crate::vocabulary::Vocabulary;
use serde::Deserialize;
use std::path::Path;

/// What ends prompts of some old datasets.
const ASSISTANT: &str = "Assistant:";

#[derive(Deserialize)]
struct Conversation {
    conversations: Option<Vec<Turn>>,
    conversation: Option<Vec<Turn>>,
}

#[derive(Deserialize)]
struct Turn {
    value: Option<String>,
    content: Option<String>,
}

impl Conversation {
    fn turns(self) -> Vec<Turn> {
        self.conversations.or(self.conversation).unwrap_or_default()
    }
}

/// The first two turns of a conversation.
pub(super) struct Pair {
    pub(super) prompt: String,
    pub(super) answer: String,
}

/// A ShareGPT file: conversations of at least two turns, shuffled.
pub(super) fn share_gpt(path: &Path, random: &mut PythonRandom) -> Result<Vec<Pair>, DatasetError> {
    let conversations: Vec<Conversation> = file::read_json(path)?;
    let mut pairs = Vec::new();
    for (entry, conversation) in conversations.into_iter().enumerate() {
        let mut turns = conversation.turns().into_iter();
        let (Some(first), Some(second)) = (turns.next(), turns.next()) else {
            continue;
        };
        let value = |turn: Turn| {
            turn.value.ok_or_else(|| DatasetError::BadEntry {
                path: path.to_owned(),
                entry,
                reason: "a turn has no value".to_owned(),
            })
        };
        pairs.push(Pair {
            prompt: value(first)?,
            answer: value(second)?,
        });
    }
    random.shuffle(&mut pairs);
    Ok(pairs)
}

/// A file of one conversation per line, whose turns say `content` or `value`; what is wrong with
/// bad lines, which are passed over.
pub(super) fn custom(
    path: &Path,
    random: &mut PythonRandom,
) -> Result<(Vec<Pair>, Vec<String>), DatasetError> {
    let lines = file::read_good_lines::<Conversation>(path, usize::MAX, usize::MAX)?;
    let says = |turn: Turn| turn.content.or(turn.value).unwrap_or_default();
    let mut pairs = Vec::new();
    for conversation in lines.entries {
        let mut turns = conversation.turns().into_iter();
        if let (Some(first), Some(second)) = (turns.next(), turns.next()) {
            pairs.push(Pair {
                prompt: says(first),
                answer: says(second),
            });
        }
    }
    random.shuffle(&mut pairs);
    Ok((pairs, lines.bad.iter().map(ToString::to_string).collect()))
}

/// How pairs become rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairRules {
    /// How many rows are wanted.
    pub count: usize,
    /// Every answer has this length.
    pub output_tokens: Option<u64>,
    /// Rows longer than this in all are passed over.
    pub context: Option<u64>,
    /// Put behind every prompt.
    pub suffix: String,
    /// Whether prompts are put into the chat template.
    pub template: bool,
    /// Which lengths are passed over.
    pub limits: PairLimits,
}

/// Which pairs are too short or too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairLimits {
    /// Prompts and answers below this are passed over.
    pub least: u64,
    /// Prompts above this.
    pub prompt: u64,
    /// Pairs above this in all, when answers have their own length.
    pub pair: u64,
}

impl Default for PairLimits {
    fn default() -> Self {
        Self {
            least: 2,
            prompt: u64::MAX,
            pair: u64::MAX,
        }
    }
}

impl PairLimits {
    /// The limits of the LMDeploy client.
    pub const LMDEPLOY: Self = Self {
        least: 4,
        prompt: 1024,
        pair: 2048,
    };
}

impl PairRules {
    /// Refuses lengths that make no sense.
    pub(super) fn check(&self) -> Result<(), DatasetError> {
        match self.output_tokens {
            Some(length) if length < 4 => Err(DatasetError::OutputTooSmall { length }),
            _ => Ok(()),
        }
    }

    /// Rows from pairs, in order, until there are enough, and what was left out on the way.
    pub(super) fn rows(
        &self,
        pairs: Vec<Pair>,
        vocabulary: &Vocabulary,
        name: &'static str,
    ) -> Result<(Vec<Row>, Option<String>), DatasetError> {
        let mut rows = Vec::new();
        let conversations = pairs.len();
        let (mut short, mut long) = (0, 0);
        for pair in pairs {
            if rows.len() == self.count {
                break;
            }
            let prompt = self.prompt(pair.prompt, vocabulary, name, rows.len())?;
            let prompt_tokens = vocabulary.encode(&prompt).len() as u64;
            let output_tokens = match self.output_tokens {
                Some(length) => length,
                None => vocabulary.encode(&pair.answer).len() as u64,
            };
            if self.keeps(prompt_tokens, output_tokens) {
                rows.push(Row::text(prompt, prompt_tokens, output_tokens));
            } else if prompt_tokens.min(output_tokens) < self.limits.least {
                short += 1;
            } else {
                long += 1;
            }
        }
        let mut words = format!("of {conversations} conversations with two turns");
        if short > 0 {
            let least = self.limits.least;
            put(
                &mut words,
                format_args!(", {short} have a prompt or answer below {least} tokens"),
            );
        }
        if long > 0 {
            put(&mut words, format_args!(", {long} are too long"));
        }
        if let (Some(most), true) = (self.context, long > 0) {
            put(
                &mut words,
                format_args!(" for --sharegpt-context-len {most}"),
            );
        }
        Ok((rows, Some(words)))
    }

    fn keeps(&self, prompt: u64, output: u64) -> bool {
        let limits = &self.limits;
        let own_length = self.output_tokens.is_none();
        prompt >= limits.least
            && output >= limits.least
            && prompt <= limits.prompt
            && !(own_length && prompt + output > limits.pair)
            && self
                .context
                .is_none_or(|most| most == 0 || prompt + output <= most)
    }

    fn prompt(
        &self,
        mut prompt: String,
        vocabulary: &Vocabulary,
        name: &'static str,
        row: usize,
    ) -> Result<String, DatasetError> {
        if !self.suffix.is_empty() {
            let stem = prompt.strip_suffix(ASSISTANT).unwrap_or(&prompt);
            prompt = format!("{stem}{}{ASSISTANT}", self.suffix);
        }
        if self.template {
            let refused = |reason: String| DatasetError::Template { name, row, reason };
            prompt = vocabulary
                .render(&[message("user", &prompt)])
                .ok_or_else(|| refused("the tokenizer has no chat template".to_owned()))?
                .map_err(|error| refused(error.to_string()))?;
            if let Some(bos) = vocabulary.bos_text().filter(|bos| !bos.is_empty()) {
                prompt = prompt.replace(bos, "");
            }
        }
        Ok(prompt)
    }
}
