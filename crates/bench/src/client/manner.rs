//! How requests are worded: everything about them that is the same for a whole run.

use super::backend::{Backend, Family};
use super::http1::{Url, write_request_head};
use super::tls::Trust;
use crate::dataset::{Prompt, Row, message};
use crate::release::Release;
use serde_json::{Map, Value, json};

/// The header by which a router finds the server that has the prefix.
const ROUTING_KEY: &str = "X-SMG-Routing-Key";

/// How requests of a run are worded.
#[derive(Clone, Debug)]
pub struct Manner {
    /// What is spoken to.
    pub backend: Backend,
    /// Where it is.
    pub base: Url,
    /// Who is believed to be there, where the connection is encrypted.
    pub trust: Trust,
    /// The release whose wording is taken on.
    pub release: Release,
    /// The model named in requests.
    pub model: String,
    /// Headers of every request, authorisation included.
    pub headers: Vec<(String, String)>,
    /// Whether answers come as streams.
    pub stream: bool,
    /// Whether generation goes on past the end token.
    pub ignore_eos: bool,
    /// Native sampling.
    pub sampling: Sampling,
    /// What is to be returned beside text.
    pub extras: Extras,
    /// Keys put into every body, over those made here.
    pub extra_body: Map<String, Value>,
    /// What beside the necessary is said.
    pub wording: Wording,
}

/// What requests say beside the necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wording {
    /// As SGLang's client: native requests always carry adapter and log-probability keys.
    Sglang,
    /// The same, and streams are asked to tell their token counts.
    SglangCounted,
    /// As LMDeploy's client: native requests carry nothing more.
    Lmdeploy,
    /// The least, and streams are asked to tell their token counts.
    Plain,
}

impl Wording {
    fn is_bare(self) -> bool {
        matches!(self, Self::Lmdeploy | Self::Plain)
    }

    fn asks_usage(self) -> bool {
        matches!(self, Self::SglangCounted | Self::Plain)
    }
}

/// Sampling of the native backend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Zero is greedy.
    pub temperature: f64,
    /// One is everything.
    pub top_p: f64,
}

/// What the native backend is asked to return beside text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extras {
    /// Log-probabilities of output tokens.
    pub log_probs: bool,
    /// Of how many alternatives.
    pub top_log_probs: u64,
    /// Of these tokens.
    pub token_ids: Option<Vec<u64>>,
    /// From this position of the prompt on; −1 for none of it.
    pub start: i64,
    /// The experts each token was routed to.
    pub routed_experts: bool,
}

/// One request of a run: what differs from the others.
pub(crate) struct Ask<'a> {
    pub(crate) row: &'a Row,
    pub(crate) output_tokens: u64,
    pub(crate) adapter: Option<&'a str>,
    /// The conversation so far, for a turn of one.
    pub(crate) history: Option<&'a [Value]>,
}

impl Manner {
    /// The bytes of a request: head and body.
    pub(crate) fn request(&self, ask: &Ask<'_>) -> Vec<u8> {
        let body = self.body(ask);
        let body = serde_json::to_vec(&body).expect("a JSON object is serialised");
        let mut headers = self.headers.clone();
        if let Some(key) = &ask.row.routing_key {
            headers.push((ROUTING_KEY.to_owned(), key.clone()));
        }
        let target = self.base.target(self.backend.path());
        let mut bytes = Vec::with_capacity(body.len() + 512);
        let line = ("POST", target.as_str());
        write_request_head(
            &mut bytes,
            line,
            self.base.authority(),
            &headers,
            Some(body.len()),
        );
        bytes.extend_from_slice(&body);
        bytes
    }

    /// The body of a request.
    pub(crate) fn body(&self, ask: &Ask<'_>) -> Map<String, Value> {
        let mut body = match self.backend.family() {
            Family::Native => self.native(ask),
            Family::Completions | Family::Truss => self.completions(ask),
            Family::Chat => self.chat(ask),
            Family::Embeddings => object(json!({ "input": prompt(ask), "model": self.model })),
            Family::Triton => self.triton(ask),
        };
        body.extend(self.extra_body.clone());
        body.extend(ask.row.extra_body.clone());
        if self.wording.asks_usage()
            && self.stream
            && matches!(body.get("stream"), Some(Value::Bool(true)))
        {
            add_usage(&mut body, self.backend.family());
        }
        self.after_extras(&mut body, ask);
        body
    }

    fn native(&self, ask: &Ask<'_>) -> Map<String, Value> {
        let mut sampling = object(json!({
            "temperature": self.sampling.temperature,
            "max_new_tokens": ask.output_tokens,
            "ignore_eos": self.ignore_eos,
        }));
        if self.sampling.top_p < 1.0 {
            sampling.insert("top_p".to_owned(), json!(self.sampling.top_p));
        }
        let form = if matches!(ask.row.prompt, Prompt::Tokens(_)) {
            "input_ids"
        } else {
            "text"
        };
        if self.wording.is_bare() {
            return object(json!({
                form: prompt(ask),
                "sampling_params": sampling,
                "stream": self.stream,
            }));
        }
        let mut body = object(json!({
            form: prompt(ask),
            "sampling_params": sampling,
            "stream": self.stream,
            "lora_path": ask.adapter,
            "return_logprob": self.extras.log_probs,
        }));
        if self.release.has(7) {
            body.insert(
                "return_routed_experts".to_owned(),
                json!(self.extras.routed_experts),
            );
        }
        body.insert("logprob_start_len".to_owned(), json!(self.extras.start));
        body
    }

    fn completions(&self, ask: &Ask<'_>) -> Map<String, Value> {
        let mut body = object(json!({
            "model": self.model,
            "prompt": prompt(ask),
            "temperature": 0.0,
            "best_of": 1,
            "max_tokens": ask.output_tokens,
            "stream": self.stream,
            "ignore_eos": self.ignore_eos,
        }));
        if self.extras.log_probs && self.extras.top_log_probs > 0 && self.release.has(10) {
            body.insert("logprobs".to_owned(), json!(self.extras.top_log_probs));
        }
        body
    }

    fn chat(&self, ask: &Ask<'_>) -> Map<String, Value> {
        object(json!({
            "model": self.model,
            "messages": messages(ask),
            "temperature": 0.0,
            "max_completion_tokens": ask.output_tokens,
            "stream": self.stream,
            "ignore_eos": self.ignore_eos,
        }))
    }

    fn triton(&self, ask: &Ask<'_>) -> Map<String, Value> {
        let mut body = object(json!({
            "accumulate_tokens": true,
            "text_input": prompt(ask),
            "temperature": 0.000_001,
            "top_p": 1.0,
            "max_tokens": ask.output_tokens,
            "stream": true,
        }));
        if self.ignore_eos {
            body.insert("min_length".to_owned(), json!(ask.output_tokens));
            body.insert("end_id".to_owned(), json!(1_048_576));
        }
        body
    }

    /// What is set whatever the extra body says.
    fn after_extras(&self, body: &mut Map<String, Value>, ask: &Ask<'_>) {
        let mut set = |key: &str, value: Value| {
            body.insert(key.to_owned(), value);
        };
        match self.backend.family() {
            Family::Native => {
                if self.extras.top_log_probs > 0 {
                    set("top_logprobs_num", json!(self.extras.top_log_probs));
                }
                if let Some(ids) = &self.extras.token_ids {
                    set("token_ids_logprob", json!(ids));
                }
            }
            Family::Completions | Family::Chat | Family::Embeddings => {
                if let Some(adapter) = ask.adapter {
                    set("model", json!(adapter));
                    set("lora_path", json!(adapter));
                }
            }
            Family::Triton | Family::Truss => {}
        }
        let takes_images = matches!(self.backend.family(), Family::Native | Family::Completions);
        if takes_images && !ask.row.images.is_empty() {
            set("image_data", json!(ask.row.images));
        }
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn prompt(ask: &Ask<'_>) -> Value {
    match &ask.row.prompt {
        Prompt::Text(text) => json!(text),
        Prompt::Tokens(ids) => json!(ids),
        Prompt::Messages(messages) => json!(messages),
        Prompt::Turns(turns) => json!(turns),
    }
}

fn messages(ask: &Ask<'_>) -> Value {
    if let Some(history) = ask.history {
        return json!(history);
    }
    match &ask.row.prompt {
        Prompt::Messages(messages) => json!(messages),
        Prompt::Text(text) if !ask.row.images.is_empty() => {
            let images = ask.row.images.iter();
            let mut parts: Vec<Value> = images
                .map(|image| json!({ "type": "image_url", "image_url": { "url": image } }))
                .collect();
            parts.push(json!({ "type": "text", "text": text }));
            json!([{ "role": "user", "content": parts }])
        }
        Prompt::Text(text) => json!([message("user", text)]),
        _ => json!([{ "role": "user", "content": prompt(ask) }]),
    }
}

/// Asks a stream for its counts: at the end, and with every chunk where that is understood.
fn add_usage(body: &mut Map<String, Value>, family: Family) {
    if !matches!(family, Family::Completions | Family::Chat) {
        return;
    }
    let options = body.entry("stream_options").or_insert_with(|| json!({}));
    if let Value::Object(options) = options {
        options.entry("include_usage").or_insert(json!(true));
        options
            .entry("continuous_usage_stats")
            .or_insert(json!(true));
    }
}
