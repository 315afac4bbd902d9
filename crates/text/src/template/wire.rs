//! What a process that renders templates is told, and what it answers.

use std::io::{self, Read, Write};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::RenderInput;
use crate::tokenizer::SpecialTokens;

/// Parse the template in the second part.
pub(super) const COMPILE: u8 = 1;
/// Render the conversation in the following parts with the last template.
pub(super) const RENDER: u8 = 2;
/// The answer to either when it failed: a `TemplateError`.
pub(super) const FAILED: u8 = 3;
/// The answer to `COMPILE`: a `ContentFormat`; and to `RENDER`: the text.
pub(super) const DONE: u8 = 4;

/// A message in either direction: what it is, and its parts.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) parts: Vec<Vec<u8>>,
}

impl Frame {
    pub(super) fn new(kind: u8, parts: Vec<Vec<u8>>) -> Self {
        Self { kind, parts }
    }

    /// Bytes of all parts.
    pub(super) fn len(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }

    pub(super) fn write(&self, mut to: impl Write) -> io::Result<()> {
        let mut head = vec![self.kind, self.parts.len() as u8];
        for part in &self.parts {
            head.extend((part.len() as u64).to_le_bytes());
        }
        to.write_all(&head)?;
        for part in &self.parts {
            to.write_all(part)?;
        }
        to.flush()
    }

    /// The next message; `None` when the other side is gone.
    pub(super) fn read(mut from: impl Read) -> io::Result<Option<Self>> {
        let mut start = [0; 2];
        match from.read_exact(&mut start) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            done => done?,
        }
        let [kind, count] = start;
        let mut lengths = vec![0; usize::from(count) * size_of::<u64>()];
        from.read_exact(&mut lengths)?;
        let mut parts = Vec::with_capacity(usize::from(count));
        for length in lengths.as_chunks().0 {
            let length = u64::from_le_bytes(*length);
            let mut part = Vec::new();
            from.by_ref().take(length).read_to_end(&mut part)?;
            if part.len() as u64 != length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            parts.push(part);
        }
        Ok(Some(Self { kind, parts }))
    }
}

/// What a process may take for one message.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Allowance {
    /// Bytes of memory beyond what it had at its start.
    pub(super) memory: u64,
    /// Seconds of a processor.
    pub(super) seconds: u64,
}

/// The first part of every message to the process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    Compile {
        allowance: Allowance,
        special: SpecialTokens,
    },
    Render {
        allowance: Allowance,
        add_generation_prompt: bool,
        continue_final_message: bool,
        now: Option<SystemTime>,
    },
}

/// A conversation, read back.
#[derive(Debug)]
pub(super) struct Conversation {
    messages: Value,
    tools: Option<Value>,
    kwargs: Option<Map<String, Value>>,
}

impl Conversation {
    /// Each part is JSON of its own, so that nothing is nested deeper than it came.
    pub(super) fn parts(input: &RenderInput<'_>) -> [Vec<u8>; 3] {
        [
            json(input.messages),
            json(&input.tools),
            json(&input.kwargs),
        ]
    }

    pub(super) fn read([messages, tools, kwargs]: [&[u8]; 3]) -> serde_json::Result<Self> {
        Ok(Self {
            messages: serde_json::from_slice(messages)?,
            tools: serde_json::from_slice(tools)?,
            kwargs: serde_json::from_slice(kwargs)?,
        })
    }

    pub(super) fn input(
        &self,
        add_generation_prompt: bool,
        continue_final_message: bool,
        now: Option<SystemTime>,
    ) -> RenderInput<'_> {
        RenderInput {
            messages: &self.messages,
            tools: self.tools.as_ref(),
            add_generation_prompt,
            continue_final_message,
            kwargs: self.kwargs.as_ref(),
            now,
        }
    }
}

pub(super) fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("values with texts as keys can be written")
}
