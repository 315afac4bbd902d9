//! docs/figures.md defines what is written, and names tests that exist.
#![expect(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod support;

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use support::bench::{Bench, SHARE_GPT};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The words between backticks in the document.
fn defined() -> BTreeSet<String> {
    let text = std::fs::read_to_string(Path::new(ROOT).join("../../docs/figures.md")).unwrap();
    let words = text.split('`').skip(1).step_by(2);
    words.map(str::to_owned).collect()
}

/// A key as the document writes it: spreads have one line for all of their kinds.
fn written(key: &str) -> String {
    let kinds = ["mean", "median", "std", "p90", "p95", "p99", "max"];
    let time = kinds.iter().find_map(|kind| key.strip_prefix(kind));
    match time.filter(|time| time.starts_with('_') && time.ends_with("_ms")) {
        Some(time) => format!("*{time}"),
        None => key.to_owned(),
    }
}

/// Keys of a result line, and of the sets in it whose keys are fixed.
fn keys(result: &Value) -> Vec<String> {
    let free = [
        "provenance",
        "server_info",
        "failures",
        "refused",
        "goodput_slos_ms",
        "slo_attainment_by_metric",
    ];
    let mut keys = Vec::new();
    for (key, value) in result.as_object().unwrap() {
        keys.push(key.clone());
        if value.is_object() && !free.contains(&key.as_str()) {
            keys.extend(value.as_object().unwrap().keys().cloned());
        }
    }
    keys
}

#[test]
fn every_key_of_a_result_line_is_defined() {
    let bench = Bench::new();
    let defined = defined();
    for line in [
        "--strict --output-details --slo ttft:9000 --max-concurrency 2 --warmup-requests 0",
        "--reference 0.5.23 --goodput ttft:9000 --warmup-requests 0",
    ] {
        assert_eq!(bench.run(&format!("{SHARE_GPT} {line}")).code, 0);
        let keys = keys(&bench.result());
        assert!(keys.len() > 30, "{keys:?}");
        for key in keys {
            let known = defined.contains(&key) || defined.contains(&written(&key));
            assert!(known, "{key} is not in docs/figures.md");
        }
    }
}

/// All Rust sources under a folder, one after another.
fn sources(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|end| end == "rs") {
            text.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn every_test_that_is_named_exists() {
    let mut text = String::new();
    for folder in ["src", "tests"] {
        sources(&Path::new(ROOT).join(folder), &mut text);
    }
    let defined = defined();
    let named: Vec<&String> = defined
        .iter()
        .filter(|word| word.matches('_').count() > 4 && !word.contains(' '))
        .collect();
    assert!(named.len() > 30, "{named:?}");
    for name in named {
        assert!(text.contains(&format!("fn {name}()")), "{name} is no test");
    }
}
