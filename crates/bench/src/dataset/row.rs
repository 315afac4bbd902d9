//! What one request is made of.

use crate::record::Asked;
use serde_json::{Map, Value};

/// One row of a dataset: a request, or a whole conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What is asked.
    pub prompt: Prompt,
    /// How large it is.
    pub asked: Asked,
    /// Images as data addresses.
    pub images: Vec<String>,
    /// When a trace says it came, in milliseconds on the trace's clock.
    pub timestamp: Option<f64>,
    /// Requests with the same key should reach the same server.
    pub routing_key: Option<String>,
    /// Keys of the request body that this row brings with it.
    pub extra_body: Map<String, Value>,
}

/// The forms a prompt can have.
#[derive(Clone, Debug, PartialEq)]
pub enum Prompt {
    /// Plain text.
    Text(String),
    /// Token ids.
    Tokens(Vec<u32>),
    /// Chat messages, sent as they are.
    Messages(Vec<Value>),
    /// A conversation: the messages each turn adds before the server answers.
    Turns(Vec<Vec<Value>>),
}

impl Row {
    /// A text of so many tokens that asks for so many.
    pub fn text(prompt: String, prompt_tokens: u64, output_tokens: u64) -> Self {
        Self::new(Prompt::Text(prompt), prompt_tokens, output_tokens)
    }

    /// A row without images, trace or extras.
    pub fn new(prompt: Prompt, prompt_tokens: u64, output_tokens: u64) -> Self {
        Self {
            prompt,
            asked: Asked {
                prompt_tokens,
                text_tokens: prompt_tokens,
                vision_tokens: 0,
                output_tokens,
            },
            images: Vec::new(),
            timestamp: None,
            routing_key: None,
            extra_body: Map::new(),
        }
    }

    /// How many requests the row stands for.
    pub fn rounds(&self) -> usize {
        match &self.prompt {
            Prompt::Turns(turns) => turns.len(),
            _ => 1,
        }
    }
}

/// A message of a role.
pub fn message(role: &str, content: &str) -> Value {
    serde_json::json!({ "role": role, "content": content })
}
