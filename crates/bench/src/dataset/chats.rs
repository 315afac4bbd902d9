//! Chat requests from files: recorded requests, and traces of agents.

use super::file;
use super::{Dataset, DatasetError, Prompt, Row};
use crate::python_text;
use crate::vocabulary::Vocabulary;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::path::Path;

/// What is sent anew with every request and so not taken from the file.
const OWN_KEYS: [&str; 4] = ["messages", "max_tokens", "max_completion_tokens", "model"];
/// The usual length of an agent's reply.
const AGENT_REPLY: u64 = 220;

/// A file of chat requests, one per line; what else a line has is sent with its request.
pub(super) fn open_ai(
    path: &Path,
    count: usize,
    output_tokens: Option<u64>,
    vocabulary: &Vocabulary,
) -> Result<Dataset, DatasetError> {
    let most = if count == 0 { usize::MAX } else { count };
    let lines = file::read_good_lines::<Map<String, Value>>(path, most, usize::MAX)?;
    let mut rows = Vec::new();
    for (place, line) in lines.entries.into_iter().enumerate() {
        let messages = line
            .get("messages")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        if messages.is_empty() {
            continue;
        }
        let fixed = output_tokens.filter(|length| *length > 0);
        let own = line.get("max_tokens").and_then(Value::as_u64);
        let output = fixed.or(own).unwrap_or(256);
        let rendered = vocabulary.render(&messages).transpose();
        let refused = |reason: String| DatasetError::Template {
            name: "openai",
            row: place,
            reason,
        };
        let rendered = rendered
            .map_err(|error| refused(error.to_string()))?
            .ok_or_else(|| refused("the tokenizer has no chat template".to_owned()))?;
        let mut prompt_tokens = vocabulary.count(&rendered);
        if let Some(tools) = line.get("tools") {
            prompt_tokens += vocabulary.encode(&python_text::json(tools)).len();
        }
        let mut row = Row::new(Prompt::Messages(messages), prompt_tokens as u64, output);
        row.extra_body = line
            .into_iter()
            .filter(|(key, _)| !OWN_KEYS.contains(&key.as_str()))
            .collect();
        rows.push(row);
    }
    let loaded = format!("Loaded {} OpenAI-format requests", rows.len());
    let mut dataset = Dataset::counted(rows);
    dataset.notes.insert(0, loaded);
    dataset.passed_over = lines.bad.iter().map(ToString::to_string).collect();
    Ok(dataset)
}

/// How a trace of agents is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentRules {
    /// How many conversations; zero for all.
    pub count: usize,
    /// Where to begin in the file, round and round.
    pub offset: i64,
    /// The most turns of a conversation.
    pub turns: Option<usize>,
    /// The length of every reply.
    pub output_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Trace {
    #[serde(default)]
    conversations: Vec<Vec<AgentTurn>>,
}

#[derive(Deserialize, Default)]
struct AgentTurn {
    #[serde(default)]
    messages: Vec<Value>,
    prompt_tokens: Option<f64>,
}

impl AgentRules {
    pub(super) fn load(&self, path: &Path) -> Result<Dataset, DatasetError> {
        let empty = |reason: &str| DatasetError::Empty {
            path: path.to_owned(),
            reason: reason.to_owned(),
        };
        let mut conversations = file::read_json::<Trace>(path)?.conversations;
        if conversations.is_empty() {
            return Err(empty("no 'conversations' found"));
        }
        let offset = self.offset.rem_euclid(conversations.len() as i64) as usize;
        conversations.rotate_left(offset);
        let output = self
            .output_tokens
            .filter(|length| *length > 0)
            .unwrap_or(AGENT_REPLY);
        let most = if self.count == 0 {
            usize::MAX
        } else {
            self.count
        };
        let rows: Vec<Row> = conversations
            .into_iter()
            .filter_map(|conversation| self.row(conversation, output))
            .take(most)
            .collect();
        if rows.is_empty() {
            return Err(empty("no usable conversations"));
        }
        let turns: Vec<usize> = rows.iter().map(Row::rounds).collect();
        let average = turns.iter().sum::<usize>() as f64 / turns.len() as f64;
        let (least, most) = (turns.iter().min(), turns.iter().max());
        let notes = vec![
            format!(
                "#Conversations: {} (offset={offset}, turns/conv min={} max={} avg={average:.1})",
                rows.len(),
                least.copied().unwrap_or_default(),
                most.copied().unwrap_or_default(),
            ),
            format!("#Output tokens per turn: {output}"),
        ];
        Ok(Dataset {
            notes,
            ..Dataset::of(rows)
        })
    }

    fn row(&self, conversation: Vec<AgentTurn>, output: u64) -> Option<Row> {
        let counted = conversation.first().and_then(|turn| turn.prompt_tokens);
        let most = self.turns.filter(|turns| *turns > 0).unwrap_or(usize::MAX);
        let turns: Vec<Vec<Value>> = conversation
            .into_iter()
            .map(|turn| turn.messages.iter().map(plain).collect::<Vec<_>>())
            .filter(|messages| !messages.is_empty())
            .take(most)
            .collect();
        let prompt_tokens = counted.unwrap_or_default() as u64;
        (!turns.is_empty()).then(|| Row::new(Prompt::Turns(turns), prompt_tokens, output))
    }
}

fn plain(message: &Value) -> Value {
    json!({ "role": message["role"], "content": message["content"] })
}
