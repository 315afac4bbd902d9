//! Events of `/v1/chat/completions`.

use super::AnswerReader;
use super::completions::without_choice;
use super::skim::spoken_in_chat;
use crate::clock::Nanos;
use crate::record::Failure;

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
        let text = choice.delta.take().unwrap_or_default().into_text();
        self.open_ai_text(&text, &parsed, at);
        Ok(())
    }
}
