use protocol::native::{
    CumulativeEvent, ErrorBody, FinishReason, GenerateResponse, LogProbs, MetaInfo,
};
use text::Tokenizer;

use super::log_probs;
use crate::config::NativeStream;
use crate::outputs::Facts;
use crate::sequence::Delta;
use crate::stream::{EventWriter, Events};

/// How the native API shows sequences.
pub(crate) struct NativeView {
    pub(crate) facts: Vec<Facts>,
    pub(crate) weight_version: String,
    /// The server has a tokenizer.
    pub(crate) with_text: bool,
    /// Gives log-probabilities their text, when that is wanted.
    pub(crate) log_prob_text: Option<Tokenizer>,
    pub(crate) return_prompt_tokens: bool,
}

impl NativeView {
    /// Complete answers, in order.
    pub(crate) fn whole(&self, sequences: Vec<Delta>) -> Vec<GenerateResponse> {
        sequences
            .into_iter()
            .enumerate()
            .map(|(index, delta)| self.one(index, delta))
            .collect()
    }

    fn one(&self, index: usize, delta: Delta) -> GenerateResponse {
        let mut meta_info = self.meta_info(index, &delta);
        if let Some(mut input) = self.first_input(index) {
            extend(&mut input, self.input(index, &delta));
            meta_info.input_token_logprobs = Some(input.tokens);
            meta_info.input_top_logprobs = input.top;
            meta_info.input_token_ids_logprobs = input.chosen;
            let output = self.output(index, &delta);
            meta_info.output_token_logprobs = Some(output.tokens);
            meta_info.output_top_logprobs = output.top;
            meta_info.output_token_ids_logprobs = output.chosen;
        }
        GenerateResponse {
            text: self.with_text.then_some(delta.text),
            output_ids: delta.tokens,
            meta_info,
            index: None,
            prompt_token_ids: self
                .return_prompt_tokens
                .then(|| self.facts[index].prompt.to_vec()),
        }
    }

    fn meta_info(&self, index: usize, delta: &Delta) -> MetaInfo {
        let end = delta.end.as_ref();
        MetaInfo {
            id: self.facts[index].name.to_string(),
            finish_reason: end.map(|end| end.reason.clone()),
            prompt_tokens: delta.counts.prompt_tokens,
            weight_version: self.weight_version.clone(),
            total_retractions: delta.counts.retractions,
            completion_tokens: delta.counts.completion_tokens,
            cached_tokens: delta.counts.cached_tokens,
            timing: end.map(|end| end.timing.clone()),
            ..MetaInfo::default()
        }
    }

    /// The beginning of the log-probabilities of the prompt; `None` when none at all are wanted.
    fn first_input(&self, index: usize) -> Option<LogProbs> {
        let facts = &self.facts[index];
        let asked = facts.log_probs.as_ref()?;
        Some(log_probs::native_first(
            &facts.prompt,
            asked,
            self.log_prob_text.as_ref(),
        ))
    }

    fn input(&self, index: usize, delta: &Delta) -> LogProbs {
        self.log_probs(index, &delta.prompt_log_probs)
    }

    fn output(&self, index: usize, delta: &Delta) -> LogProbs {
        self.log_probs(index, &delta.log_probs)
    }

    fn log_probs(&self, index: usize, positions: &[sampling::TokenLogProbs]) -> LogProbs {
        match &self.facts[index].log_probs {
            None => LogProbs::default(),
            Some(asked) => log_probs::native(positions, asked, self.log_prob_text.as_ref()),
        }
    }
}

fn extend(all: &mut LogProbs, more: LogProbs) {
    all.tokens.extend(more.tokens);
    if let (Some(all), Some(more)) = (&mut all.top, more.top) {
        all.extend(more);
    }
    if let (Some(all), Some(more)) = (&mut all.chosen, more.chosen) {
        all.extend(more);
    }
}

/// The events of a native stream.
pub(crate) struct NativeEvents {
    view: NativeView,
    mode: NativeStream,
    sequences: Vec<CumulativeEvent>,
}

impl NativeEvents {
    /// `numbered` events say which sequence of a batch they are about.
    pub(crate) fn new(view: NativeView, mode: NativeStream, numbered: bool) -> Self {
        let begin = |index| {
            let mut sequence = CumulativeEvent::new(view.with_text, numbered.then_some(index));
            if let Some(first) = view.first_input(index) {
                sequence.push_input_log_probs(&first);
                sequence.push_output_log_probs(&LogProbs::default());
            }
            sequence
        };
        let sequences = (0..view.facts.len()).map(begin).collect();
        Self {
            view,
            mode,
            sequences,
        }
    }
}

impl EventWriter for NativeEvents {
    fn write(&mut self, index: usize, delta: Delta, events: &mut Events) {
        if let Some(FinishReason::Abort {
            message,
            status_code: Some(_),
            ..
        }) = delta.end.as_ref().map(|end| &end.reason)
        {
            events.json(&ErrorBody::new(message.clone()));
            return;
        }
        let sequence = &mut self.sequences[index];
        if self.view.facts[index].log_probs.is_some() {
            sequence.push_input_log_probs(&self.view.input(index, &delta));
            sequence.push_output_log_probs(&self.view.output(index, &delta));
        }
        sequence.push_text(&delta.text);
        sequence.push_ids(&delta.tokens);
        events.cumulative(sequence, &self.view.meta_info(index, &delta));
        match self.mode {
            NativeStream::Cumulative => {}
            NativeStream::NewTokens => sequence.forget_ids(),
            NativeStream::Incremental => {
                sequence.forget_ids();
                sequence.forget_text();
            }
        }
    }

    fn end(&mut self, _: &mut Events) {}
}
