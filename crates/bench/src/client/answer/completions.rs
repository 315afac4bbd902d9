//! Events of `/v1/completions`, of truss, and of Triton's `generate_stream`.

use super::skim::{Spoken, spoken_in_completion};
use super::wire::{self, OpenAiEvent};
use super::{AnswerReader, malformed};
use crate::clock::Nanos;
use crate::record::Failure;
use serde::Deserialize;

impl AnswerReader {
    pub(super) fn completion(&mut self, event: &[u8], at: Nanos) -> Result<(), Failure> {
        if let Some(spoken) = spoken_in_completion(event, &mut self.shape) {
            return self.spoken(spoken, at);
        }
        let mut parsed = self.open_ai(event)?;
        let Some(choice) = parsed
            .choices
            .as_mut()
            .and_then(|choices| choices.first_mut())
        else {
            return without_choice(&parsed);
        };
        self.ended |= choice.finish_reason.is_some();
        let text = choice.text.take().unwrap_or_default();
        self.open_ai_text(&text, &parsed, at);
        Ok(())
    }

    pub(super) fn triton(&mut self, event: &[u8], at: Nanos) -> Result<(), Failure> {
        #[derive(Deserialize)]
        struct TritonEvent {
            text_output: String,
        }
        let parsed: TritonEvent =
            serde_json::from_slice(event).map_err(|error| malformed(&error, event))?;
        self.answer.text.push_str(&parsed.text_output);
        self.chunk(at, 0);
        Ok(())
    }

    /// Takes over text that a glance has found.
    pub(super) fn spoken(&mut self, spoken: Spoken<'_>, at: Nanos) -> Result<(), Failure> {
        self.ended |= spoken.ended;
        if spoken.raw.is_empty() {
            return Ok(());
        }
        match std::str::from_utf8(spoken.raw) {
            Ok(text) if memchr::memchr(b'\\', spoken.raw).is_none() => {
                self.answer.text.push_str(text);
            }
            _ => {
                let quoted = [&b"\""[..], spoken.raw, b"\""].concat();
                let text: String =
                    serde_json::from_slice(&quoted).map_err(|error| malformed(&error, &quoted))?;
                self.answer.text.push_str(&text);
            }
        }
        self.chunk(at, 0);
        Ok(())
    }

    /// Parses an event and takes over what it says about usage.
    pub(super) fn open_ai(&mut self, event: &[u8]) -> Result<OpenAiEvent, Failure> {
        let mut parsed: OpenAiEvent =
            serde_json::from_slice(event).map_err(|error| malformed(&error, event))?;
        if let Some(usage) = &parsed.usage {
            usage.add_to(&mut self.answer.usage);
        }
        if let Some(extension) = parsed.sglext.take() {
            extension.add_to(&mut self.answer.usage);
        }
        if let Some(error) = &parsed.error {
            self.in_stream = Some(wire::in_stream(error));
        }
        Ok(parsed)
    }

    pub(super) fn open_ai_text(&mut self, text: &str, parsed: &OpenAiEvent, at: Nanos) {
        if text.is_empty() {
            return;
        }
        self.answer.text.push_str(text);
        self.chunk(at, parsed.counted());
    }
}

/// An event without choices: the usage after the last one, or an error.
pub(super) fn without_choice(parsed: &OpenAiEvent) -> Result<(), Failure> {
    if parsed.usage.is_some() || parsed.error.is_some() || parsed.choices.is_some() {
        return Ok(());
    }
    Err(Failure::Malformed {
        reason: "an event has neither choices nor usage".to_owned(),
    })
}
