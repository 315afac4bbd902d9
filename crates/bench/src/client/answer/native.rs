//! Events of `/generate`.

use super::skim::{Glance, glance};
use super::wire::{self, NativeEvent};
use super::{AnswerReader, Kept, malformed};
use crate::clock::Nanos;
use crate::record::{Chunk, Failure};

/// A server that counts further than this is not believed: figures have a value per token.
const MOST_TOKENS: u32 = 1 << 24;

impl AnswerReader {
    pub(super) fn native(&mut self, event: &[u8], at: Nanos) -> Result<Kept, Failure> {
        let Some(seen) = glance(event, &mut self.shape) else {
            return self.native_in_full(event, at);
        };
        if seen.has_error {
            return self.native_in_full(event, at);
        }
        if seen.has_text {
            return self.native_text(seen, at);
        }
        self.bare.clear();
        self.bare.extend_from_slice(event);
        Ok(Kept::Nothing)
    }

    /// Decodes the newest events: the text, the counts, and whether they name a reason to end.
    pub(super) fn decode_native(&mut self) -> Result<(), Failure> {
        for event in [
            std::mem::take(&mut self.bare),
            std::mem::take(&mut self.newest),
        ] {
            if event.is_empty() {
                continue;
            }
            let parsed: NativeEvent =
                serde_json::from_slice(&event).map_err(|error| malformed(&error, &event))?;
            self.answer.text = parsed.text.unwrap_or_default();
            let meta = parsed.meta_info.unwrap_or_default();
            self.ended |= meta.finish_reason.is_some();
            meta.add_to(&mut self.answer.usage);
        }
        Ok(())
    }

    pub(super) fn native_text(&mut self, seen: Glance, at: Nanos) -> Result<Kept, Failure> {
        let Some(tokens) = seen.completion_tokens else {
            let reason = "an event has text but no meta_info.completion_tokens".to_owned();
            return Err(Failure::Malformed { reason });
        };
        if tokens > MOST_TOKENS {
            let reason = format!("an answer of {tokens} tokens; the most is {MOST_TOKENS}");
            return Err(Failure::Malformed { reason });
        }
        self.answer.chunks.push(Chunk {
            at,
            tokens,
            text_end: 0,
        });
        Ok(Kept::Newest)
    }

    fn native_in_full(&mut self, event: &[u8], at: Nanos) -> Result<Kept, Failure> {
        let parsed: NativeEvent =
            serde_json::from_slice(event).map_err(|error| malformed(&error, event))?;
        if let Some(error) = &parsed.error {
            self.in_stream = Some(wire::in_stream(error));
        }
        let has_text = parsed.text.is_some_and(|text| !text.is_empty());
        if !has_text {
            return Ok(Kept::Nothing);
        }
        let count = parsed.meta_info.and_then(|meta| meta.completion_tokens);
        let completion_tokens = count.and_then(|count| u32::try_from(count).ok());
        self.native_text(
            Glance {
                has_text,
                completion_tokens,
                has_error: false,
            },
            at,
        )
    }
}
