//! The answers that most scripts are made of.

use super::{Act, Request, Script};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The form of a generated stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// Events that repeat the whole text.
    Native,
    /// Completion events.
    Completions,
    /// Chat events.
    Chat,
}

/// A stream of tokens at a steady pace.
#[derive(Clone, Debug)]
pub struct Generation {
    /// Its form.
    pub voice: Voice,
    /// How many tokens, at most one per letter group of the text.
    pub tokens: usize,
    /// From the request to the first event.
    pub first: Duration,
    /// From one event to the next.
    pub gap: Duration,
    /// Tokens in each event.
    pub tokens_per_event: usize,
    /// Events in each write.
    pub events_per_write: usize,
    /// Prompt tokens to report.
    pub prompt_tokens: u64,
}

impl Generation {
    /// One token per event, one event per write.
    pub fn steady(voice: Voice, tokens: usize, first: Duration, gap: Duration) -> Self {
        Self {
            voice,
            tokens,
            first,
            gap,
            tokens_per_event: 1,
            events_per_write: 1,
            prompt_tokens: 1,
        }
    }

    /// The moments at which events are sent, after the request.
    pub fn moments(&self) -> Vec<Duration> {
        let events = self.tokens.div_ceil(self.tokens_per_event.max(1));
        let per_write = self.events_per_write.max(1);
        (0..events)
            .map(|event| self.first + self.gap * (event / per_write) as u32)
            .collect()
    }

    /// The payloads of the events, `[DONE]` not among them.
    pub fn events(&self) -> Vec<String> {
        let step = self.tokens_per_event.max(1);
        let counts = (0..self.tokens)
            .step_by(step)
            .map(|from| (from + step).min(self.tokens));
        let mut before = 0;
        counts
            .map(|count| {
                let event = self.event(before, count).to_string();
                before = count;
                event
            })
            .collect()
    }

    /// The script of this stream.
    pub fn script(&self) -> Script {
        self.script_of(self.writes().into_iter().map(Act::Send))
    }

    /// The bytes of each write: chunks of a chunked body, the last with its end.
    pub fn writes(&self) -> Vec<Arc<[u8]>> {
        let events = self.events();
        let groups: Vec<&[String]> = events.chunks(self.events_per_write.max(1)).collect();
        let count = groups.len();
        groups
            .into_iter()
            .enumerate()
            .map(|(place, events)| {
                let mut bytes = Vec::new();
                for event in events {
                    add_chunk(&mut bytes, &format!("data: {event}\n\n"));
                }
                if place + 1 == count {
                    add_chunk(&mut bytes, "data: [DONE]\n\n");
                    bytes.extend_from_slice(b"0\r\n\r\n");
                }
                Arc::from(bytes)
            })
            .collect()
    }

    /// A script that sends these writes at this generation's moments.
    pub fn script_of(&self, writes: impl Iterator<Item = Act>) -> Script {
        let mut script = Script::events(self.first);
        let mut last = self.first;
        for (place, write) in writes.enumerate() {
            last = self.first + self.gap * place as u32;
            script = script.act(last, write);
        }
        script.next(last)
    }

    fn event(&self, before: usize, count: usize) -> Value {
        let finish = (count == self.tokens).then_some("length");
        match self.voice {
            Voice::Native => json!({
                "text": words(0, count),
                "meta_info": {
                    "id": "scripted",
                    "finish_reason": finish.map(|kind| json!({ "type": kind, "length": count })),
                    "prompt_tokens": self.prompt_tokens,
                    "completion_tokens": count,
                    "cached_tokens": 0,
                },
            }),
            Voice::Completions => json!({
                "id": "scripted",
                "object": "text_completion",
                "model": "scripted",
                "choices": [{ "index": 0, "text": words(before, count), "finish_reason": finish }],
                "usage": null,
            }),
            Voice::Chat => json!({
                "id": "scripted",
                "object": "chat.completion.chunk",
                "model": "scripted",
                "choices": [{
                    "index": 0,
                    "delta": { "role": "assistant", "content": words(before, count) },
                    "finish_reason": finish,
                }],
                "usage": null,
            }),
        }
    }
}

/// The text of tokens `from..to`: a short word each.
fn words(from: usize, to: usize) -> String {
    const WORDS: [&str; 8] = [
        " the", " sea", " is", " calm", " and", " we", " sail", " on",
    ];
    (from..to).map(|token| WORDS[token % WORDS.len()]).collect()
}

fn add_chunk(bytes: &mut Vec<u8>, payload: &str) {
    bytes.extend_from_slice(format!("{:x}\r\n{payload}\r\n", payload.len()).as_bytes());
}

/// The answers every scripted server gives to questions about itself; nothing for other paths.
pub fn standard(request: &Request, model: &str) -> Option<Script> {
    let path = request.path.split('?').next().unwrap_or_default();
    let body = match path {
        "/v1/models" => json!({
            "object": "list",
            "data": [{ "id": model, "object": "model", "owned_by": "scripted", "root": model }],
        }),
        "/get_server_info" | "/server_info" => json!({
            "model_path": model,
            "version": "scripted",
            "internal_states": [{ "last_gen_throughput": 0.0 }],
        }),
        "/get_model_info" | "/model_info" => {
            json!({ "model_path": model, "tokenizer_path": model })
        }
        "/flush_cache" | "/reset_prefix_cache" | "/health" | "/start_profile" | "/stop_profile" => {
            return Some(Script::whole("200 OK", "text/plain", "done\n"));
        }
        _ => return None,
    };
    Some(Script::json(&body))
}
