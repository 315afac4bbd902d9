//! Answers that come in one piece.

use super::wire::{self, OpenAiEvent};
use super::{Answer, Dialect, malformed};
use crate::record::{Chunk, Failure};

/// Reads a whole body into the answer. Its one chunk arrived when its last byte did.
pub(super) fn read(dialect: Dialect, answer: &mut Answer, body: &[u8]) -> Result<(), Failure> {
    let Some(at) = answer.last_line else {
        return Err(Failure::Empty);
    };
    let mut parsed: OpenAiEvent =
        serde_json::from_slice(body).map_err(|error| malformed(&error, body))?;
    if let Some(usage) = &parsed.usage {
        usage.add_to(&mut answer.usage);
    }
    if let Some(extension) = parsed.sglext.take() {
        extension.add_to(&mut answer.usage);
    }
    if let Some(error) = &parsed.error {
        return Err(wire::in_stream(error));
    }
    if dialect == Dialect::Embeddings {
        return Ok(());
    }
    let Some(choice) = parsed.choices.unwrap_or_default().into_iter().next() else {
        return Err(Failure::Malformed {
            reason: "the answer has no choices".to_owned(),
        });
    };
    if let Some(meta) = choice.meta_info {
        answer.usage.accept_length = meta.spec_accept_length;
    }
    let message = choice.message.unwrap_or_default();
    answer.tool_calls.text = message.tool_text();
    answer.text = message.into_text();
    let tokens = answer
        .usage
        .output_tokens
        .and_then(|count| u32::try_from(count).ok());
    let text_end = answer.text.len() as u32;
    answer.chunks.push(Chunk {
        at,
        tokens: tokens.unwrap_or(0),
        text_end,
    });
    Ok(())
}
