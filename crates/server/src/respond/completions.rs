use std::borrow::Cow;

use protocol::native::FinishReason;
use protocol::openai::{
    CompletionChoice, CompletionChunk, CompletionLogProbs, CompletionResponse, ErrorResponse,
    Metadata, StreamError,
};
use text::Tokenizer;

use super::log_probs::CompletionScore;
use super::usage::Ledger;
use crate::clock;
use crate::outputs::Facts;
use crate::sequence::Delta;
use crate::stream::{EventWriter, Events};

/// What all answers of the OpenAI API are made with.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    /// The model's name, as the request had it.
    pub(crate) model: String,
    pub(crate) weight_version: String,
    pub(crate) cache_report: bool,
    /// Sequences per prompt.
    pub(crate) choices: usize,
    /// A stream ends with token counts.
    pub(crate) include_usage: bool,
    /// Every piece of a stream has token counts.
    pub(crate) continuous_usage: bool,
}

/// How completions show sequences.
pub(crate) struct CompletionView {
    pub(crate) envelope: Envelope,
    pub(crate) facts: Vec<Facts>,
    /// The text of each prompt, when answers repeat it.
    pub(crate) echo: Option<Vec<String>>,
    /// Present when log-probabilities are wanted.
    pub(crate) log_prob_text: Option<Tokenizer>,
}

impl CompletionView {
    fn echo(&self, index: usize) -> &str {
        let prompt = index / self.envelope.choices;
        self.echo
            .as_ref()
            .map_or("", |texts| texts[prompt].as_str())
    }

    /// Log-probabilities of what is new, those of a repeated prompt first.
    fn log_probs(
        &self,
        index: usize,
        delta: &Delta,
        is_first: bool,
        score: &mut CompletionScore,
    ) -> Option<CompletionLogProbs> {
        let tokenizer = self.log_prob_text.as_ref()?;
        let mut log_probs = CompletionLogProbs::default();
        if self.echo.is_some() {
            if let Some(&token) = self.facts[index].prompt.first().filter(|_| is_first) {
                score.first(token, tokenizer, &mut log_probs);
            }
            score.append(&delta.prompt_log_probs, tokenizer, &mut log_probs);
        }
        score.append(&delta.log_probs, tokenizer, &mut log_probs);
        Some(log_probs)
    }

    /// The complete answer.
    pub(crate) fn whole(&self, sequences: Vec<Delta>) -> CompletionResponse {
        let envelope = &self.envelope;
        let mut ledger = Ledger::new(sequences.len(), envelope.choices, envelope.cache_report);
        let mut choices = Vec::with_capacity(sequences.len());
        for (index, delta) in sequences.into_iter().enumerate() {
            ledger.set(index, delta.counts);
            let logprobs = self.log_probs(index, &delta, true, &mut CompletionScore::default());
            let text = format!("{}{}", self.echo(index), delta.text);
            choices.push(choice(index, text, logprobs, &delta));
        }
        CompletionResponse {
            id: self
                .facts
                .first()
                .map(|facts| facts.id.to_string())
                .unwrap_or_default(),
            object: "text_completion".into(),
            created: clock::unix_seconds(),
            model: envelope.model.clone(),
            choices,
            usage: ledger.total(),
            metadata: Some(Metadata {
                weight_version: envelope.weight_version.clone(),
            }),
        }
    }
}

fn choice(
    index: usize,
    text: String,
    logprobs: Option<CompletionLogProbs>,
    delta: &Delta,
) -> CompletionChoice {
    let reason = delta.end.as_ref().map(|end| &end.reason);
    CompletionChoice {
        index,
        text,
        logprobs,
        finish_reason: reason.map(|reason| Cow::Borrowed(reason.word())),
        matched_stop: reason.and_then(FinishReason::matched).cloned(),
    }
}

/// The events of a stream of completions.
pub(crate) struct CompletionEvents {
    view: CompletionView,
    ledger: Ledger,
    scores: Vec<Option<CompletionScore>>,
    created: u64,
}

impl CompletionEvents {
    pub(crate) fn new(view: CompletionView) -> Self {
        let (sequences, envelope) = (view.facts.len(), &view.envelope);
        Self {
            ledger: Ledger::new(sequences, envelope.choices, envelope.cache_report),
            scores: vec![None; sequences],
            created: clock::unix_seconds(),
            view,
        }
    }

    fn chunk(&self, index: usize) -> CompletionChunk<'_> {
        CompletionChunk {
            id: (&*self.view.facts[index].id).into(),
            object: "text_completion".into(),
            created: self.created,
            model: self.view.envelope.model.as_str().into(),
            choices: Vec::new(),
            usage: None,
        }
    }
}

impl EventWriter for CompletionEvents {
    fn write(&mut self, index: usize, mut delta: Delta, events: &mut Events) {
        if let Some(error) = stream_error(&delta) {
            events.json(&error);
            return;
        }
        self.ledger.set(index, delta.counts);
        let is_first = self.scores[index].is_none();
        let mut score = self.scores[index].take().unwrap_or_default();
        let logprobs = self.view.log_probs(index, &delta, is_first, &mut score);
        self.scores[index] = Some(score);
        if is_first {
            delta.text.insert_str(0, self.view.echo(index));
        }
        let has_log_probs = logprobs
            .as_ref()
            .is_some_and(|list| !list.tokens.is_empty());
        if delta.text.is_empty() && !has_log_probs && delta.end.is_none() {
            return;
        }
        let text = std::mem::take(&mut delta.text);
        let mut chunk = self.chunk(index);
        chunk.choices.push(choice(index, text, logprobs, &delta));
        if self.view.envelope.continuous_usage {
            chunk.usage = Some(self.ledger.of(index));
        }
        events.json(&chunk);
    }

    fn end(&mut self, events: &mut Events) {
        if self.view.envelope.include_usage {
            let mut chunk = self.chunk(0);
            chunk.usage = Some(self.ledger.total());
            events.json_without_nulls(&chunk);
        }
    }
}

/// The event that a broken sequence becomes.
pub(super) fn stream_error(delta: &Delta) -> Option<StreamError> {
    match delta.end.as_ref().map(|end| &end.reason) {
        Some(FinishReason::Abort {
            message,
            status_code: Some(code),
            ..
        }) => Some(StreamError {
            error: ErrorResponse::new(message.clone(), "InternalServerError", *code),
        }),
        _ => None,
    }
}
