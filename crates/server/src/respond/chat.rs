use std::borrow::Cow;

use protocol::native::FinishReason;
use protocol::openai::{
    ChatChoice, ChatChunk, ChatChunkChoice, ChatLogProbs, ChatResponse, Delta, Metadata,
};
use text::Tokenizer;

use super::completions::{Envelope, stream_error};
use super::log_probs;
use super::message::MessageParser;
use super::thought_count::ThoughtCount;
use super::usage::Ledger;
use crate::clock;
use crate::outputs::Facts;
use crate::sequence;
use crate::stream::{EventWriter, Events};

/// How chats show sequences.
pub(crate) struct ChatView {
    pub(crate) envelope: Envelope,
    pub(crate) facts: Vec<Facts>,
    /// Present when log-probabilities are wanted.
    pub(crate) log_prob_text: Option<Tokenizer>,
    /// Ready for the beginning of an answer.
    pub(crate) parser: MessageParser,
    /// The same, where thinking is told apart.
    pub(crate) thoughts: Option<ThoughtCount>,
}

impl ChatView {
    /// The complete answer.
    pub(crate) fn whole(&self, sequences: Vec<sequence::Delta>) -> ChatResponse {
        let envelope = &self.envelope;
        let mut ledger = Ledger::new(sequences.len(), envelope.choices, envelope.cache_report);
        let mut choices = Vec::with_capacity(sequences.len());
        for (index, delta) in sequences.into_iter().enumerate() {
            ledger.set(index, delta.counts);
            if let Some(mut thoughts) = self.thoughts.clone() {
                thoughts.push(&delta.tokens);
                ledger.set_thoughts(index, thoughts.tokens());
            }
            choices.push(self.choice(index, &delta));
        }
        ChatResponse {
            id: self
                .facts
                .first()
                .map(|facts| facts.id.to_string())
                .unwrap_or_default(),
            object: "chat.completion".into(),
            created: clock::unix_seconds(),
            model: envelope.model.clone(),
            choices,
            usage: ledger.total(),
            metadata: Some(Metadata {
                weight_version: envelope.weight_version.clone(),
            }),
        }
    }

    fn choice(&self, index: usize, delta: &sequence::Delta) -> ChatChoice {
        let logprobs = self.log_probs(delta);
        let mut parser = self.parser.clone();
        let message = parser.message(&delta.text);
        let reason = delta.end.as_ref().map(|end| &end.reason);
        ChatChoice {
            index,
            message,
            logprobs,
            finish_reason: reason.map(|reason| finish_word(reason, &parser)),
            matched_stop: reason.and_then(FinishReason::matched).cloned(),
        }
    }

    fn begin(&self) -> Choice {
        Choice {
            parser: self.parser.clone(),
            thoughts: self.thoughts.clone(),
            untold: ChatLogProbs::default(),
        }
    }

    fn log_probs(&self, delta: &sequence::Delta) -> Option<ChatLogProbs> {
        let tokenizer = self.log_prob_text.as_ref()?;
        Some(log_probs::chat(&delta.log_probs, tokenizer))
    }
}

/// A stop after a call of a function is a request to call it.
fn finish_word(reason: &FinishReason, parser: &MessageParser) -> Cow<'static, str> {
    match reason {
        FinishReason::Stop { .. } if parser.has_calls => "tool_calls".into(),
        _ => reason.word().into(),
    }
}

/// The events of a stream of a chat.
pub(crate) struct ChatEvents {
    view: ChatView,
    ledger: Ledger,
    /// One for each sequence that has begun.
    choices: Vec<Option<Choice>>,
    created: u64,
}

/// What is known of a sequence between two of its pieces.
struct Choice {
    parser: MessageParser,
    thoughts: Option<ThoughtCount>,
    /// Log-probabilities of tokens that have said nothing yet: a part of a character, a mark, an end.
    untold: ChatLogProbs,
}

impl Choice {
    fn take_untold(&mut self) -> Option<ChatLogProbs> {
        let untold = std::mem::take(&mut self.untold);
        (!untold.content.is_empty()).then_some(untold)
    }
}

impl ChatEvents {
    pub(crate) fn new(view: ChatView) -> Self {
        let (sequences, envelope) = (view.facts.len(), &view.envelope);
        Self {
            ledger: Ledger::new(sequences, envelope.choices, envelope.cache_report),
            choices: std::iter::repeat_with(|| None).take(sequences).collect(),
            created: clock::unix_seconds(),
            view,
        }
    }

    fn chunk(&self, index: usize, choice: Option<ChatChunkChoice>) -> ChatChunk<'_> {
        let has_usage = choice.is_some() && self.view.envelope.continuous_usage;
        ChatChunk {
            id: (&*self.view.facts[index].id).into(),
            object: "chat.completion.chunk".into(),
            created: self.created,
            model: self.view.envelope.model.as_str().into(),
            choices: choice.into_iter().collect(),
            usage: has_usage.then(|| self.ledger.of(index)),
        }
    }

    fn say(&self, index: usize, delta: Delta, logprobs: Option<ChatLogProbs>, events: &mut Events) {
        let choice = ChatChunkChoice {
            index,
            delta,
            logprobs,
            ..ChatChunkChoice::default()
        };
        events.json(&self.chunk(index, Some(choice)));
    }
}

impl ChatEvents {
    fn greet(&self, index: usize, events: &mut Events) {
        let greeting = Delta {
            role: Some("assistant".into()),
            content: Some(String::new()),
            ..Delta::default()
        };
        self.say(index, greeting, None, events);
    }
}

impl EventWriter for ChatEvents {
    fn write(&mut self, index: usize, delta: sequence::Delta, events: &mut Events) {
        if let Some(error) = stream_error(&delta) {
            events.json(&error);
            return;
        }
        self.ledger.set(index, delta.counts);
        let begun = self.choices[index].take();
        let mut choice = begun.unwrap_or_else(|| {
            self.greet(index, events);
            self.view.begin()
        });
        if let Some(thoughts) = &mut choice.thoughts {
            thoughts.push(&delta.tokens);
            self.ledger.set_thoughts(index, thoughts.tokens());
        }
        // Clients look for text in every piece but the last: tokens without any wait for the next that has some.
        let log_probs = self.view.log_probs(&delta).unwrap_or_default();
        choice.untold.content.extend(log_probs.content);
        for said in choice.parser.push(&delta.text, delta.end.is_some()) {
            self.say(index, said, choice.take_untold(), events);
        }
        if let Some(end) = delta.end {
            let last = ChatChunkChoice {
                index,
                logprobs: choice.take_untold(),
                finish_reason: Some(finish_word(&end.reason, &choice.parser)),
                matched_stop: end.reason.matched().cloned(),
                ..ChatChunkChoice::default()
            };
            events.json(&self.chunk(index, Some(last)));
        }
        self.choices[index] = Some(choice);
    }

    fn end(&mut self, events: &mut Events) {
        if self.view.envelope.include_usage {
            let mut chunk = self.chunk(0, None);
            chunk.usage = Some(self.ledger.total());
            events.json(&chunk);
        }
    }
}
