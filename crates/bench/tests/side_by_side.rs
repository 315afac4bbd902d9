//! Beside the unmodified Python clients on the same server: same requests, same output, same figures.
//!
//! Needs what `reference/setup_bench_clients.sh` fetches; `.ci/run` runs it.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot unwrap has failed"
)]

mod support;

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use support::{data, data_text, serve};
use testkit::scripted_server::{Generation, Request, Script, ScriptedServer, Voice, standard};

const RELEASES: [&str; 2] = ["0.5.6.post2", "0.5.23"];

/// The target folder with the reference clients in it; says so when they were not fetched.
fn clients() -> Option<PathBuf> {
    let target = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let ready = |release: &str| target.join("reference-clients").join(release).join("ready");
    let wanted = RELEASES.map(ready).into_iter();
    for file in wanted.chain([target.join(PYTHON)]) {
        if !file.exists() {
            println!(
                "skipped: there is no {}, run reference/setup_bench_clients.sh",
                file.display()
            );
            return None;
        }
    }
    Some(target)
}

fn answer(request: &Request) -> Script {
    if let Some(script) = standard(request, &data_text("tokenizer")) {
        return script;
    }
    let body = request.json();
    let (voice, asked) = match request.path.as_str() {
        "/generate" => (Voice::Native, &body["sampling_params"]["max_new_tokens"]),
        "/v1/completions" => (Voice::Completions, &body["max_tokens"]),
        _ => (Voice::Chat, &body["max_completion_tokens"]),
    };
    let tokens = asked.as_u64().unwrap_or(1) as usize;
    let (first, gap) = (Duration::from_millis(40), Duration::from_millis(15));
    Generation {
        tokens_per_event: 2,
        ..Generation::steady(voice, tokens, first, gap)
    }
    .script()
}

/// The interpreter that has what the clients import.
const PYTHON: &str = "python/bench-clients/bin/python";

/// What a client printed and wrote, and the bodies it sent.
struct Seen {
    out: String,
    result: Value,
    keys: Vec<String>,
    bodies: Vec<String>,
}

fn seen(out: String, server: &ScriptedServer, folder: &tempfile::TempDir) -> Seen {
    let written = std::fs::read_to_string(folder.path().join("result.jsonl")).unwrap();
    let line = written.lines().last().unwrap();
    let valid = line.replace("Infinity", "\"inf\"").replace("NaN", "null");
    let result: Value = serde_json::from_str(&valid).unwrap();
    let keys = result.as_object().unwrap().keys().cloned().collect();
    let mut bodies: Vec<String> = server
        .log()
        .iter()
        .filter(|exchange| exchange.request.method == "POST")
        .map(|exchange| sorted(&exchange.request.json()).to_string())
        .collect();
    bodies.sort_unstable();
    Seen {
        out,
        result,
        keys,
        bodies,
    }
}

/// The same object with its keys in order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let map: BTreeMap<&String, Value> =
                map.iter().map(|(key, item)| (key, sorted(item))).collect();
            json!(map)
        }
        other => other.clone(),
    }
}

fn ours(release: &str, words: &[&str]) -> Seen {
    let server = ScriptedServer::start(answer).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let result = folder.path().join("result.jsonl");
    let base = server.base_url();
    let mut all = vec![
        "--reference",
        release,
        "--base-url",
        &base,
        "--output-file",
        result.to_str().unwrap(),
    ];
    all.extend(words);
    let printed = serve(&all);
    assert_eq!(printed.code, 0, "{}", printed.err);
    seen(printed.out, &server, &folder)
}

fn theirs(target: &std::path::Path, release: &str, words: &[&str]) -> Seen {
    let server = ScriptedServer::start(answer).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let result = folder.path().join("result.jsonl");
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../reference/bench_client.py");
    let ran = Command::new(target.join(PYTHON))
        .arg(script)
        .arg(target.join("reference-clients").join(release))
        .args([
            "--base-url",
            &server.base_url(),
            "--output-file",
            result.to_str().unwrap(),
        ])
        .args(words)
        .env("HF_HUB_OFFLINE", "1")
        .env("API_KEY", "secret")
        .env("HOME", folder.path())
        .output()
        .unwrap();
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    seen(String::from_utf8(ran.stdout).unwrap(), &server, &folder)
}

/// The printed text with measured values blanked; labels, order and column widths stay.
fn layout(out: &str) -> Vec<String> {
    let measured = |line: &str| {
        line.contains("(ms):")
            || line.contains("/s):")
            || line.contains("Benchmark duration")
            || line.starts_with("Concurrency:")
            || line.starts_with("Peak ")
    };
    out.lines()
        .map(|line| {
            if line.starts_with("Server ready in ") {
                return "Server ready in …".to_owned();
            }
            if measured(line) {
                // A value of another length moves nothing: columns are ten wide at least.
                let width = line.len().max(51);
                let label: String = line.chars().take(41).collect();
                return format!("{label}#{width}");
            }
            // The address and the folder of the result differ from run to run.
            let mut line = line.to_owned();
            for (from, to) in [
                ("base_url='", "', "),
                ("output_file='", "', "),
                ("http://127.0.0.1:", "/"),
            ] {
                if let Some(start) = line.find(from).map(|at| at + from.len())
                    && let Some(length) = line[start..].find(to)
                {
                    line.replace_range(start..start + length, "…");
                }
            }
            line
        })
        .collect()
}

/// How often figures may be apart before they count as different: the machine may be busy.
const TRIES: usize = 3;

fn compare(clients: &std::path::Path, release: &str, words: &[&str]) {
    let case = format!("{release} {words:?}");
    let apart = (0..TRIES).map_while(|_| {
        let (ours, theirs) = (ours(release, words), theirs(clients, release, words));
        same(&case, &ours, &theirs);
        apart(&case, &ours, &theirs)
    });
    let apart: Vec<String> = apart.collect();
    assert!(apart.len() < TRIES, "{apart:#?}");
}

/// What must be equal, whatever the machine does.
fn same(case: &str, ours: &Seen, theirs: &Seen) {
    assert_eq!(ours.bodies, theirs.bodies, "{case}");
    let (lines, their_lines) = (layout(&ours.out), layout(&theirs.out));
    for (line, their_line) in lines.iter().zip(&their_lines) {
        assert_eq!(line, their_line, "{case}");
    }
    assert_eq!(lines.len(), their_lines.len(), "{case}");
    assert_eq!(ours.keys, theirs.keys, "{case}");
    for key in [
        "completed",
        "total_input_tokens",
        "total_output_tokens",
        "total_output_tokens_retokenized",
    ] {
        assert_eq!(ours.result[key], theirs.result[key], "{case} {key}");
    }
}

/// The first figure that differs by more than noise: the script's delays are what both must have seen.
fn apart(case: &str, ours: &Seen, theirs: &Seen) -> Option<String> {
    let bounds = [
        ("median_ttft_ms", 15.0),
        ("median_tpot_ms", 3.0),
        ("median_itl_ms", 3.0),
        ("median_e2e_latency_ms", 40.0),
    ];
    bounds.into_iter().find_map(|(key, room)| {
        let value = |seen: &Seen| seen.result[key].as_f64().unwrap();
        let (ours, theirs) = (value(ours), value(theirs));
        println!("{case} {key}: ours {ours:.3}, theirs {theirs:.3}");
        let differs = (ours - theirs).abs() > room;
        differs.then(|| format!("{case} {key}: ours {ours}, theirs {theirs}"))
    })
}

#[test]
fn requests_output_and_figures_are_those_of_the_python_clients() {
    let Some(clients) = clients() else { return };
    let conversations = data("conversations.json");
    let conversations = conversations.to_str().unwrap();
    let native = [
        "--dataset-name",
        "sharegpt",
        "--dataset-path",
        conversations,
        "--num-prompts",
        "12",
        "--max-concurrency",
        "6",
        "--apply-chat-template",
    ];
    let completions = [
        "--backend",
        "sglang-oai",
        "--dataset-name",
        "random-ids",
        "--random-input-len",
        "30",
        "--random-output-len",
        "12",
        "--num-prompts",
        "10",
        "--request-rate",
        "40",
        "--seed",
        "7",
    ];
    let chat = [
        "--backend",
        "sglang-oai-chat",
        "--dataset-name",
        "random",
        "--dataset-path",
        conversations,
        "--random-input-len",
        "30",
        "--random-output-len",
        "12",
        "--random-range-ratio",
        "0.5",
        "--num-prompts",
        "10",
        "--extra-request-body",
        "{\"top_k\": 3}",
    ];
    std::thread::scope(|scope| {
        for release in RELEASES {
            let clients = &clients;
            scope.spawn(move || {
                compare(clients, release, &native);
                compare(clients, release, &completions);
                compare(clients, release, &chat);
            });
        }
    });
}
