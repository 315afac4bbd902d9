//! The replay: one event log through the reference and through this crate, every figure equal.

use super::*;
use crate::client::replay_answer;
use crate::clock::Nanos;
use crate::record::{Asked, Due};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Deserialize)]
struct Logged {
    sent: u64,
    prompt_tokens: u64,
    output_tokens: u64,
    status: Option<u16>,
    lines: Vec<(u64, String)>,
}

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(data(name)).unwrap()).unwrap()
}

fn records(backend: Backend, log: &Value) -> Vec<RequestRecord> {
    let requests: Vec<Logged> = serde_json::from_value(log[backend.name()].clone()).unwrap();
    let record = |(row, logged): (usize, Logged)| {
        let asked = Asked {
            prompt_tokens: logged.prompt_tokens,
            text_tokens: logged.prompt_tokens,
            vision_tokens: 0,
            output_tokens: logged.output_tokens,
        };
        let sent = Nanos(logged.sent);
        let begun = RequestRecord::begun(row, 0, Due::at(sent), sent, asked);
        match logged.status {
            Some(code) => RequestRecord {
                failure: Some(Failure::Status {
                    code,
                    reason: "Service Unavailable".to_owned(),
                    body: "busy".to_owned(),
                }),
                ..begun
            },
            None => replay_answer(&begun, backend, &logged.lines),
        }
    };
    requests.into_iter().enumerate().map(record).collect()
}

/// A float written as C's `%a`.
fn from_hex(text: &str) -> f64 {
    let (sign, digits) = text
        .strip_prefix('-')
        .map_or((1.0, text), |digits| (-1.0, digits));
    let (mantissa, exponent) = digits.strip_prefix("0x").unwrap().split_once('p').unwrap();
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let bits = u64::from_str_radix(&format!("{whole}{part}"), 16).unwrap();
    let exponent: i32 = exponent.parse().unwrap();
    sign * bits as f64 * 2_f64.powi(exponent - 4 * part.len() as i32)
}

fn named(figures: &Figures) -> BTreeMap<String, f64> {
    let mut all: BTreeMap<String, f64> = [
        ("completed", figures.completed as f64),
        ("total_input", figures.input as f64),
        ("total_input_text", figures.input_text as f64),
        ("total_input_vision", figures.input_vision as f64),
        ("total_output", figures.output as f64),
        (
            "total_output_retokenized",
            figures.output_retokenized as f64,
        ),
        ("request_throughput", figures.request_throughput()),
        ("input_throughput", figures.input_throughput()),
        ("output_throughput", figures.output_throughput()),
        ("total_throughput", figures.total_throughput()),
        ("concurrency", figures.concurrency),
        ("max_output_tokens_per_s", figures.peak_output),
        ("max_concurrent_requests", figures.peak_requests as f64),
        ("max_itl_ms", figures.itl.max),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let families = [
        ("ttft", figures.ttft),
        ("tpot", figures.tpot),
        ("itl", figures.itl),
        ("e2e_latency", figures.e2e),
    ];
    for (family, spread) in families {
        for (kind, value) in [
            ("mean", spread.mean),
            ("median", spread.median),
            ("std", spread.deviation),
            ("p90", spread.p90),
            ("p95", spread.p95),
            ("p99", spread.p99),
        ] {
            all.insert(format!("{kind}_{family}_ms"), value);
        }
    }
    all
}

fn check(release: &str, backend: &str, accept_length: Option<f64>, vocabulary: &Vocabulary) {
    let backend = Backend::named(backend).unwrap();
    let records = records(backend, &json("replay.json"));
    let view = View {
        backend,
        release: release.parse().unwrap(),
        gap_per_event: false,
    };
    let found = figures(
        &records,
        &Circumstances {
            view,
            duration: 12.5,
            accept_length,
            vocabulary,
            conversations: false,
        },
    );
    let case = format!(
        "{} {}",
        backend.name(),
        accept_length.map_or("None".into(), |a| a.to_string())
    );
    let golden = &json(&format!("replay-{release}.json"))[&case];
    let named = named(&found);
    let mut compared = 0;
    for (name, value) in golden["figures"].as_object().unwrap() {
        let Some(found) = named.get(name) else {
            continue;
        };
        let expected = value
            .as_str()
            .map_or_else(|| value.as_f64().unwrap(), from_hex);
        assert_eq!(
            found.to_bits(),
            expected.to_bits(),
            "{release} {case} {name}: {found} {expected}"
        );
        compared += 1;
    }
    assert!(compared >= 30, "{release} {case}: only {compared} figures");
    assert_eq!(
        serde_json::json!(found.output_lengths),
        golden["output_lens"],
        "{release} {case}"
    );
    for (place, record) in records.iter().enumerate() {
        let seen = view.see(record);
        assert_eq!(
            Value::from(seen.prompt),
            golden["input_lens"][place],
            "{release} {case} {place}"
        );
        let ttft = from_hex(golden["ttfts"][place].as_str().unwrap());
        assert_eq!(
            seen.ttft.to_bits(),
            ttft.to_bits(),
            "{release} {case} {place}"
        );
        let error = record
            .failure
            .as_ref()
            .filter(|_| !seen.success)
            .map(ToString::to_string);
        assert_eq!(
            Value::from(error.unwrap_or_default()),
            golden["errors"][place]
        );
    }
}

#[test]
fn every_figure_equals_the_reference_bit_for_bit() {
    let vocabulary = Vocabulary::from_path(data("tokenizer").to_str().unwrap()).unwrap();
    for release in ["0.5.6.post2", "0.5.23"] {
        for backend in ["sglang", "sglang-oai", "sglang-oai-chat"] {
            for accept_length in [None, Some(2.5)] {
                check(release, backend, accept_length, &vocabulary);
            }
        }
    }
}
