use std::io::Write as _;

use serde::Serialize;

use super::{LogProbs, MetaInfo};
use crate::sse;

/// Writes the events of a native stream, each of which repeats the whole output so far.
///
/// What was written stays as JSON in buffers that only grow, so an event costs a copy of its bytes
/// and no second encoding.
#[derive(Debug)]
pub struct CumulativeEvent {
    text: Option<Vec<u8>>,
    ids: Vec<u8>,
    input: Option<Lists>,
    output: Option<Lists>,
    index: Option<usize>,
}

impl CumulativeEvent {
    /// The stream of one sequence; number `index` of a batch.
    pub fn new(with_text: bool, index: Option<usize>) -> Self {
        Self {
            text: with_text.then(Vec::new),
            ids: Vec::new(),
            input: None,
            output: None,
            index,
        }
    }

    /// Adds text to the output.
    pub fn push_text(&mut self, text: &str) {
        if let Some(buffer) = &mut self.text {
            let quote = buffer.len();
            write_json(buffer, text);
            buffer.remove(quote);
            buffer.pop();
        }
    }

    /// Adds tokens to the output.
    pub fn push_ids(&mut self, ids: &[u32]) {
        append(&mut self.ids, ids);
    }

    /// Adds log-probabilities of prompt tokens.
    pub fn push_input_log_probs(&mut self, log_probs: &LogProbs) {
        self.input.get_or_insert_default().append(log_probs);
    }

    /// Adds log-probabilities of output tokens.
    pub fn push_output_log_probs(&mut self, log_probs: &LogProbs) {
        self.output.get_or_insert_default().append(log_probs);
    }

    /// Forgets the text: the next event has only what is added from now on.
    pub fn forget_text(&mut self) {
        if let Some(text) = &mut self.text {
            text.clear();
        }
    }

    /// Forgets the tokens: the next event has only those added from now on.
    pub fn forget_ids(&mut self) {
        self.ids.clear();
    }

    /// Appends an event with everything so far to `out`.
    ///
    /// Log-probabilities come from here; those of `meta_info` must be absent.
    pub fn write(&self, meta_info: &MetaInfo, out: &mut Vec<u8>) {
        out.extend_from_slice(sse::PREFIX);
        out.push(b'{');
        if let Some(text) = &self.text {
            out.extend_from_slice(b"\"text\":\"");
            out.extend_from_slice(text);
            out.extend_from_slice(b"\",");
        }
        out.extend_from_slice(b"\"output_ids\":[");
        out.extend_from_slice(&self.ids);
        out.extend_from_slice(b"],\"meta_info\":");
        write_json(out, meta_info);
        out.pop();
        for (direction, lists) in [("input", &self.input), ("output", &self.output)] {
            if let Some(lists) = lists {
                lists.write(direction, out);
            }
        }
        out.push(b'}');
        if let Some(index) = self.index {
            write!(out, ",\"index\":{index}").expect("vectors take any number of bytes");
        }
        out.push(b'}');
        out.extend_from_slice(sse::SUFFIX);
    }
}

/// The insides of lists of log-probabilities, as JSON.
#[derive(Debug, Default)]
struct Lists {
    tokens: Vec<u8>,
    top: Option<Vec<u8>>,
    chosen: Option<Vec<u8>>,
}

impl Lists {
    fn append(&mut self, log_probs: &LogProbs) {
        append(&mut self.tokens, &log_probs.tokens);
        if let Some(top) = &log_probs.top {
            append(self.top.get_or_insert_default(), top);
        }
        if let Some(chosen) = &log_probs.chosen {
            append(self.chosen.get_or_insert_default(), chosen);
        }
    }

    fn write(&self, direction: &str, out: &mut Vec<u8>) {
        let lists = [
            ("token_logprobs", Some(&self.tokens)),
            ("top_logprobs", self.top.as_ref()),
            ("token_ids_logprobs", self.chosen.as_ref()),
        ];
        for (name, list) in lists {
            let Some(list) = list else { continue };
            write!(out, ",\"{direction}_{name}\":[").expect("vectors take any number of bytes");
            out.extend_from_slice(list);
            out.push(b']');
        }
    }
}

/// Appends the elements of a list, without its brackets.
fn append<T: Serialize>(list: &mut Vec<u8>, elements: &[T]) {
    for element in elements {
        if !list.is_empty() {
            list.push(b',');
        }
        write_json(list, element);
    }
}

fn write_json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("our own values are JSON");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::{FinishReason, GenerateResponse, LogProb, Matched, Timing};

    fn meta_info(tokens: usize, finish_reason: Option<FinishReason>) -> MetaInfo {
        MetaInfo {
            id: "r\"1".to_owned(),
            finish_reason,
            prompt_tokens: 3,
            weight_version: "default".to_owned(),
            completion_tokens: tokens,
            ..MetaInfo::default()
        }
    }

    fn event(stream: &CumulativeEvent, meta_info: &MetaInfo) -> GenerateResponse {
        let mut out = Vec::new();
        stream.write(meta_info, &mut out);
        let text = std::str::from_utf8(&out).unwrap();
        let data = text
            .strip_prefix("data: ")
            .unwrap()
            .strip_suffix("\n\n")
            .unwrap();
        serde_json::from_str(data).unwrap()
    }

    fn log_probs(token: u32) -> LogProbs {
        let one = LogProb(Some(-0.5), token, Some("é".to_owned()));
        LogProbs {
            tokens: vec![one.clone()],
            top: Some(vec![Some(vec![one.clone(), one]), None]),
            chosen: None,
        }
    }

    #[test]
    fn every_event_repeats_the_output() {
        let mut stream = CumulativeEvent::new(true, None);
        stream.push_text("He said \"h");
        stream.push_ids(&[1, 2]);
        let first = event(&stream, &meta_info(2, None));
        assert_eq!(first.text.as_deref(), Some("He said \"h"));
        assert_eq!(first.output_ids, [1, 2]);
        assert_eq!(first.meta_info, meta_info(2, None));

        stream.push_text("é\n😀\u{1}\"");
        stream.push_ids(&[3]);
        let finish = FinishReason::Stop {
            matched: Some(Matched::Text("x".to_owned())),
        };
        let mut last_meta = meta_info(3, Some(finish));
        last_meta.timing = Some(Timing {
            e2e_latency: 0.5,
            ..Timing::default()
        });
        let last = event(&stream, &last_meta);
        assert_eq!(last.text.as_deref(), Some("He said \"hé\n😀\u{1}\""));
        assert_eq!(last.output_ids, [1, 2, 3]);
        assert_eq!(last.meta_info, last_meta);
        assert_eq!(last.index, None);
    }

    #[test]
    fn log_probabilities_pile_up_too() {
        let mut stream = CumulativeEvent::new(false, Some(4));
        stream.push_input_log_probs(&LogProbs::default());
        stream.push_output_log_probs(&log_probs(7));
        stream.push_output_log_probs(&log_probs(8));
        let response = event(&stream, &meta_info(2, None));
        let token = |id| LogProb(Some(-0.5), id, Some("é".to_owned()));
        assert_eq!(response.text, None);
        assert_eq!(response.index, Some(4));
        let meta = response.meta_info;
        assert_eq!(meta.input_token_logprobs, Some(vec![]));
        assert_eq!(meta.input_top_logprobs, None);
        assert_eq!(meta.output_token_logprobs, Some(vec![token(7), token(8)]));
        let top = vec![
            Some(vec![token(7), token(7)]),
            None,
            Some(vec![token(8), token(8)]),
            None,
        ];
        assert_eq!(meta.output_top_logprobs, Some(top));
        assert_eq!(meta.output_token_ids_logprobs, None);
    }

    #[test]
    fn deltas_are_what_came_since_the_last_was_forgotten() {
        let mut stream = CumulativeEvent::new(true, None);
        stream.push_text("a");
        stream.push_ids(&[1]);
        stream.forget_ids();
        stream.push_text("b");
        stream.push_ids(&[2, 3]);
        let response = event(&stream, &meta_info(3, None));
        assert_eq!(
            (response.text.as_deref(), &response.output_ids[..]),
            (Some("ab"), &[2, 3][..])
        );
        stream.forget_text();
        assert_eq!(
            event(&stream, &meta_info(3, None)).text.as_deref(),
            Some("")
        );
    }
}
