//! From the command line to an answer and a clean end.

use std::net::TcpStream;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::process::{Server, command, existing};

fn tiny(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../models/tests/goldens")
        .join(name)
}

/// A server for token ids that begins its life under `limit`, an option of the shell's `ulimit`.
fn limited(limit: &str) -> Server {
    Server::limited(limit, &tiny("llama-gqa2"), &["--skip-tokenizer-init"])
}

#[test]
fn a_server_may_open_as_many_files_as_the_system_lets_it() {
    let server = limited("-Sn 64");
    let [soft, hard] = server.limits("Max open files");
    assert_eq!(soft, hard.min(65_535));
}

#[test]
fn connections_beyond_the_limit_of_open_files_are_told_of_and_wait() {
    let mut server = limited("-n 48");
    let connections: Vec<_> = (0..64)
        .map(|_| TcpStream::connect(&server.address).unwrap())
        .collect();
    let told = server.wait_for("no connection can be taken");
    assert!(told.contains("Too many open files"), "{told}");
    drop(connections);
    let (status, _) = server.ask("GET", "/ping", &Value::Null);
    assert_eq!(status, 200);
}

fn greedy(tokens: u32) -> Value {
    json!({"temperature": 0, "max_new_tokens": tokens, "ignore_eos": true})
}

#[test]
fn a_server_whose_log_nobody_reads_any_more_goes_on() {
    let mut server = Server::of(&tiny("llama-gqa2"), &["--skip-tokenizer-init"]);
    server.ignore_log();
    let request = json!({"input_ids": [1, 2, 3], "sampling_params": greedy(5)});
    for _ in 0..3 {
        assert_eq!(server.ask("POST", "/generate", &request).0, 200);
    }
    assert_eq!(server.stop().0, Some(0));
}

#[test]
fn a_model_without_a_tokenizer_serves_token_ids() {
    let model = tiny("llama-gqa2");
    let model = ["serve", "--model-path", model.to_str().unwrap()];
    let server = Server::start(
        &model,
        &["--skip-tokenizer-init", "--served-model-name", "tiny"],
    );
    let request = json!({"input_ids": [1, 2, 3], "sampling_params": greedy(5)});
    let (status, answer) = server.ask("POST", "/generate", &request);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(
        answer["output_ids"].as_array().unwrap().len(),
        5,
        "{answer}"
    );
    assert_eq!(answer["meta_info"]["prompt_tokens"], 3);
    let (_, models) = server.ask("GET", "/v1/models", &Value::Null);
    assert_eq!(models["data"][0]["id"], "tiny");
    let (status, answer) = server.ask("POST", "/generate", &json!({"text": "x"}));
    assert_eq!(status, 400, "{answer}");
    let (code, log) = server.stop();
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn a_pasted_python_line_serves_and_says_what_has_no_effect() {
    let model = tiny("gguf-qwen3-q8_0/model.gguf");
    let words = [
        "python3",
        "-m",
        "sglang.launch_server",
        "--model",
        model.to_str().unwrap(),
    ];
    let args = [
        "--skip-tokenizer",
        "--trust-remote",
        "--tp",
        "1",
        "--enable-deepep-moe",
        "--api-key",
        "k",
    ];
    let server = Server::start(
        &words,
        &[&args[..], &["--schedule-policy", "random"]].concat(),
    );
    let (status, _) = server.ask("GET", "/server_info", &Value::Null);
    assert_eq!(status, 401);
    let (code, log) = server.stop();
    assert_eq!(code, Some(0));
    for line in [
        "NOTE: --enable-deepep-moe is deprecated. Please set `--moe-a2a-backend` to 'deepep' instead.",
        "WARNING: 3 settings have no effect here: --trust-remote-code, PYTORCH_ALLOC_CONF, \
         --schedule-policy (why: ",
        "server_args=ServerArgs(",
        "peregrine ",
        "  model    Qwen3ForCausalLM, ",
        "  device   ",
        "  memory   weights ",
        "an API key is needed",
        "Load weight begin. avail mem=",
        "Load weight end. type=Qwen3ForCausalLM, dtype=Q8_0, avail mem=",
        "KV Cache is allocated. #tokens: ",
        "Memory pool end. avail mem=",
        "max_total_num_tokens=",
        "api_key='***'",
    ] {
        assert!(log.contains(line), "{line}\n{log}");
    }
    let stamped = |line: &str| line.starts_with('[') && line.get(20..22) == Some("] ");
    assert!(log.lines().all(stamped), "{log}");
}

#[test]
fn the_server_info_has_resolved_values_and_what_had_no_effect() {
    let args = [
        "--skip-tokenizer-init",
        "--load-format",
        "dummy",
        "--max-total-tokens",
        "512",
        "--max-lora-rank",
        "8",
        "--enable-deterministic-inference",
        "--threads",
        "1",
    ];
    let server = Server::of(&tiny("llama-tied"), &args);
    let (status, info) = server.ask("GET", "/get_server_info", &Value::Null);
    assert_eq!(status, 200);
    assert_eq!(info["max_total_num_tokens"], 512, "{info}");
    assert_eq!(info["max_total_tokens"], 512);
    assert_eq!(info["chunked_prefill_size"], 512);
    assert_eq!(info["tp_size"], 1);
    let idle = &info["accepted_without_effect"];
    assert_eq!(idle["--threads"], Value::Null, "{idle}");
    for (flag, expected) in [
        ("--max-lora-rank", "LoRA"),
        (
            "--enable-deterministic-inference",
            "on a CPU results never depend",
        ),
    ] {
        let reason = idle[flag].as_str().unwrap();
        assert!(reason.contains(expected), "{reason}");
    }
    assert_eq!(
        info["internal_states"][0]["memory_usage"]["token_capacity"], 512,
        "{info}"
    );
}

#[test]
fn the_benchmark_measures_our_own_server() {
    let Some(model) = existing("target/models/SmolLM2-135M-Instruct.Q4_1.gguf") else {
        return;
    };
    let server = Server::of(&model, &["--context-length", "512"]);
    let port = server.address.rsplit(':').next().unwrap();
    let home = tempfile::tempdir().unwrap();
    let results = home.path().join("results.jsonl");
    let lengths = [
        "--random-input",
        "16",
        "--random-output",
        "4",
        "--num-prompt",
        "4",
    ];
    let output = command(home.path())
        .args([
            "-m",
            "sglang.bench_serving",
            "--host",
            "127.0.0.1",
            "--port",
            port,
        ])
        .args([
            "--dataset-name",
            "random-ids",
            "--tokenizer",
            model.to_str().unwrap(),
        ])
        .args(["--output-file", results.to_str().unwrap()])
        .args(lengths)
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{out}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let line = out
        .lines()
        .find(|line| line.starts_with("Successful requests:"))
        .unwrap();
    assert_eq!(line.split_whitespace().last(), Some("4"), "{out}");
    let result = std::fs::read_to_string(&results).unwrap();
    assert!(result.contains("\"completed\": 4"), "{result}");
}
