//! Where, when and with what a run was made.

use super::options::Options;
use super::prepare::Prepared;
use crate::dataset::{Prompt, Row};
use crate::vocabulary::hexadecimal;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A digest of everything that is sent.
pub(super) fn dataset_digest(rows: &[Arc<Row>]) -> String {
    let mut digest = Sha256::new();
    for row in rows {
        let prompt = match &row.prompt {
            Prompt::Text(text) => json!(text),
            Prompt::Tokens(ids) => json!(ids),
            Prompt::Messages(messages) => json!(messages),
            Prompt::Turns(turns) => json!(turns),
        };
        let asked = row.asked;
        let whole = json!([
            prompt,
            asked.prompt_tokens,
            asked.output_tokens,
            row.images,
            row.timestamp
        ]);
        digest.update(whole.to_string().as_bytes());
        digest.update(b"\n");
    }
    hexadecimal(&digest.finalize())
}

/// The facts of a run that are known before its figures.
pub(super) fn provenance(options: &Options, prepared: &Prepared, dataset: &str) -> Value {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    json!({
        "client": {
            "name": "peregrine bench serving",
            "version": env!("CARGO_PKG_VERSION"),
            "imitates": options.release.to_string(),
        },
        "time": super::calendar::readable(now),
        "arguments": arguments(options),
        "seed": options.given.integer("seed"),
        "base_url": prepared.base.to_string(),
        "model": prepared.model,
        "tokenizer": { "name": prepared.tokenizer, "sha256": prepared.vocabulary.fingerprint() },
        "dataset": { "sha256": dataset },
        "machine": machine(),
    })
}

fn arguments(options: &Options) -> Value {
    let settings = options
        .given
        .settings()
        .iter()
        .chain(options.own.settings());
    let pairs = settings.filter(|setting| setting.spelled.is_some());
    pairs
        .map(|setting| (setting.flag.name.to_owned(), plain(&setting.value)))
        .collect()
}

/// An option's value as JSON; numbers that JSON does not know are texts.
fn plain(value: &flags::Value) -> Value {
    match value {
        flags::Value::None => Value::Null,
        flags::Value::Switch(on) => json!(on),
        flags::Value::Text(text) => json!(text),
        flags::Value::Integer(number) => json!(number),
        flags::Value::Float(number) if number.is_finite() => json!(number),
        flags::Value::Float(number) => json!(crate::python_text::float(*number)),
        flags::Value::List(values) => values.iter().map(plain).collect(),
    }
}

/// The machine as its kernel describes it.
fn machine() -> Value {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let after = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let gpus: Vec<Option<String>> = fs::read_dir("/proc/driver/nvidia/gpus")
        .map(|entries| {
            entries
                .flatten()
                .map(|entry| {
                    let facts = fs::read_to_string(entry.path().join("information")).ok()?;
                    after(&facts, "Model")
                })
                .collect()
        })
        .unwrap_or_default();
    let driver = read("/proc/driver/nvidia/version");
    json!({
        "host": read("/proc/sys/kernel/hostname").trim(),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "cpu": after(&read("/proc/cpuinfo"), "model name"),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "memory": after(&read("/proc/meminfo"), "MemTotal"),
        "gpus": gpus,
        "gpu_driver": driver.lines().next(),
    })
}
