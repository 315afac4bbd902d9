//! Events of `/v1/chat/completions`.

use super::AnswerReader;
use super::completions::without_choice;
use super::skim::spoken_in_chat;
use super::wire::OpenAiEvent;
use crate::clock::Nanos;
use crate::record::{Chunk, Failure};

impl AnswerReader {
    pub(super) fn chat(&mut self, event: &[u8], at: Nanos) -> Result<(), Failure> {
        if let Some(spoken) = spoken_in_chat(event, &mut self.shape) {
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
        let delta = choice.delta.take().unwrap_or_default();
        let tools = delta.tool_text();
        self.open_ai_text(&delta.into_text(), &parsed, at);
        if !tools.is_empty() {
            self.tool_call(&tools, &parsed, at);
        }
        Ok(())
    }

    fn tool_call(&mut self, text: &str, parsed: &OpenAiEvent, at: Nanos) {
        let calls = &mut self.answer.tool_calls;
        calls.text.push_str(text);
        calls.chunks.push(Chunk {
            at,
            tokens: parsed.counted(),
            text_end: calls.text.len() as u32,
        });
    }
}
