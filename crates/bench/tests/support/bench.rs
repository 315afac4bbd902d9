//! Whole runs of the serving benchmark on a scripted server.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use super::{Printed, data_text, serve};
use serde_json::{Value, json};
use std::time::Duration;
use testkit::scripted_server::{Generation, Request, Script, ScriptedServer, Voice, standard};

/// Six rows of conversations.
pub(crate) const SHARE_GPT: &str =
    "--dataset-name sharegpt --dataset-path {data}conversations.json --num-prompts 6";

pub(crate) fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A server of every protocol; answers have the length that is asked for.
pub(crate) fn answer(request: &Request) -> Script {
    if let Some(script) = standard(request, &data_text("tokenizer")) {
        return script;
    }
    let body = request.json();
    let whole = body["stream"] == json!(false);
    let (voice, asked) = match request.path.as_str() {
        "/generate" => (Voice::Native, &body["sampling_params"]["max_new_tokens"]),
        "/v1/completions" | "/v1/models/model:predict" => (Voice::Completions, &body["max_tokens"]),
        "/v1/chat/completions" if whole => {
            return Script::json(&json!({
                "choices": [{ "message": { "content": "the sea is calm" } }],
                "usage": { "prompt_tokens": 5, "completion_tokens": 4 },
            }));
        }
        "/v1/chat/completions" => (Voice::Chat, &body["max_completion_tokens"]),
        "/v1/embeddings" => return Script::json(&json!({ "data": [{ "embedding": [0.5] }] })),
        "/v2/models/ensemble/generate_stream" => {
            return Script::events(milliseconds(1))
                .chunk(milliseconds(2), b"data: {\"text_output\":\" the\"}\n\n")
                .chunk(milliseconds(4), b"data: {\"text_output\":\" sea\"}\n\n")
                .end(milliseconds(4));
        }
        _ => return Script::whole("404 Not Found", "text/plain", "no such path"),
    };
    let tokens = asked.as_u64().unwrap_or(1) as usize;
    Generation::steady(voice, tokens, milliseconds(5), milliseconds(1)).script()
}

/// A scripted server and a folder for results.
pub(crate) struct Bench {
    pub(crate) server: ScriptedServer,
    pub(crate) folder: tempfile::TempDir,
}

impl Bench {
    /// A server of every protocol.
    pub(crate) fn new() -> Self {
        Self::with(answer)
    }

    pub(crate) fn with(answer: impl Fn(&Request) -> Script + Send + 'static) -> Self {
        Self {
            server: ScriptedServer::start(answer).unwrap(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Runs `bench serving` on this server; the result goes to `result.jsonl`.
    pub(crate) fn run(&self, line: &str) -> Printed {
        self.run_by(line, serve)
    }

    /// The same, by whatever takes the words.
    pub(crate) fn run_by(&self, line: &str, run: fn(&[&str]) -> Printed) -> Printed {
        let base = self.server.base_url();
        let result = self.path("result.jsonl");
        let mut words = vec![
            "--base-url",
            &base,
            "--output-file",
            &result,
            "--disable-tqdm",
        ];
        let line = line.replace("{data}", &data_text(""));
        words.extend(line.split_whitespace());
        run(&words)
    }

    pub(crate) fn result(&self) -> Value {
        let text = std::fs::read_to_string(self.path("result.jsonl")).unwrap();
        let line = text
            .lines()
            .last()
            .unwrap()
            .replace("Infinity", "\"inf\"")
            .replace("NaN", "null");
        serde_json::from_str(&line).unwrap()
    }

    pub(crate) fn bodies(&self, path: &str) -> Vec<Value> {
        let log = self.server.log();
        log.iter()
            .filter(|exchange| exchange.request.path == path)
            .map(|exchange| exchange.request.json())
            .collect()
    }
}
