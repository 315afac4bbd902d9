//! What goes wrong ends with its message, its code, and what was done before it.
#![expect(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod support;

use serde_json::{Value, json};
use std::path::Path;
use support::bench::{Bench, SHARE_GPT, answer, milliseconds};
use support::{data_text, serve};
use testkit::scripted_server::{Request, Script, standard};

/// Words, the code they end with, and what is said.
const MISTAKES: &[(&str, u8, &str)] = &[
    (
        "",
        1,
        "dataset sharegpt: no file given; add --dataset-path FILE, a JSON list of conversations in \
         ShareGPT's format, or --dataset-name random-ids, which needs none\n",
    ),
    ("--dataset-name custom", 1, "random-ids, which needs none"),
    (
        "--dataset-name sharegpt --dataset-path /nowhere.json",
        1,
        "/nowhere.json",
    ),
    (
        "--dataset-name random-ids --model /no/such/model",
        1,
        "/no/such/model",
    ),
    (
        "--backend truss --dataset-name random-ids",
        1,
        "Please provide a model with `--model` when using truss backend.",
    ),
    (
        "--backend trt --dataset-name random-ids",
        1,
        "Please provide a model using `--model` when using `trt` backend.",
    ),
    ("--backend gserver", 1, "gserver"),
    (
        "--backend vllm --tokenize-prompt --dataset-name random-ids",
        1,
        "only compatible with `--backend sglang`",
    ),
    (
        "--print-requests --dataset-name random-ids",
        1,
        "sglang-oai-chat",
    ),
    (
        "--extra-request-body [1] --dataset-name random-ids",
        1,
        "not a JSON object",
    ),
    (
        "--lora-request-distribution skewed --dataset-name random-ids",
        1,
        "More than 1 LoRA adapter",
    ),
    (
        "--lora-zipf-alpha 0.5 --dataset-name random-ids",
        1,
        "of 0.5. It must be greater than 1.",
    ),
    (
        "--backend vllm-embedding --dataset-name mooncake --dataset-path x --reference 0.5.23",
        1,
        "unsupported for embeddings",
    ),
    (
        "--num-prompts 0 --dataset-name random-ids",
        1,
        "no row is left to send: --num-prompts is 0",
    ),
    (
        "--dataset-name sharegpt --dataset-path {data}conversations.json --sharegpt-context-len 1",
        1,
        "are too long for --sharegpt-context-len 1",
    ),
    (
        "--seed -1 --dataset-name random-ids",
        1,
        "Seed must be between",
    ),
    ("--backend nosuch", 2, "invalid choice"),
    (
        "--request-rate 0",
        2,
        "expected a number > 0 or inf, got '0'",
    ),
    ("--request-rate nan", 2, "expected a number > 0 or inf"),
    ("--num-prompts -3", 2, "expected a number of at least 0"),
    (
        "--random-range-ratio 1.5",
        2,
        "expected a share of at most 1, got '1.5'",
    ),
    ("--gsp-range-ratio nan", 2, "expected a share of at most 1"),
    ("--pace constant", 2, "--pace spreads a rate"),
    ("--pace gamma --request-rate 5", 2, "need each other"),
    ("--burstiness 2 --request-rate 5", 2, "need each other"),
    ("--header x --strict", 2, "expected Key=Value, got 'x'"),
    ("--attainment 0.9", 2, "is for --find-max-rate"),
    ("--duration 5", 2, "--duration needs a pace"),
    (
        "--find-max-rate --slo ttft:1 --resume x",
        2,
        "give it without --resume",
    ),
    (
        "--client lmdeploy --strict",
        2,
        "does not go with strict measurement",
    ),
    ("--client lmdeploy --plot x --multi", 2, "without --multi"),
    (
        "--client lmdeploy --multi --request-rate-range 0,4,2",
        2,
        "a list of rates, all > 0, got '0,4,2'",
    ),
    (
        "--use-trace-timestamps --strict --dataset-name random-ids",
        1,
        "the rows of dataset random-ids have no timestamps",
    ),
    (
        "--dataset-name random-ids --output-file /nowhere/result.jsonl",
        1,
        "cannot write /nowhere/result.jsonl: ",
    ),
    ("--dataset-name random-ids --plot /", 1, "cannot write /: "),
    (
        "--base-url http://nowhere.invalid --dataset-name random-ids --model {data}tokenizer",
        1,
        "nowhere.invalid",
    ),
    ("--max-concurrency x", 2, "invalid int value"),
    ("--ramp 1:2 --dataset-name random-ids", 2, "FROM:TO:SECONDS"),
    (
        "--base-url ftp://x --dataset-name random-ids",
        1,
        "not an http address",
    ),
    (
        "--ca-file /nowhere.pem --dataset-name random-ids",
        1,
        "--ca-file /nowhere.pem: ",
    ),
];

#[test]
fn mistakes_end_with_their_message_and_code() {
    let bench = Bench::new();
    let run = |line: &str| bench.run(line);
    for (line, code, words) in MISTAKES {
        let printed = run(line);
        assert_eq!(
            printed.code, *code,
            "{line}: {}{}",
            printed.out, printed.err
        );
        assert!((printed.out + &printed.err).contains(words), "{line}");
    }
    assert!(run("--help").out.contains("--find-max-rate"));
    let gone = Bench::new();
    let base = gone.server.base_url();
    drop(gone);
    let server = ["--dataset-name", "random-ids", "--base-url", &base];
    let printed = serve(&server);
    assert_eq!(printed.code, 1);
    assert!(printed.out.contains(&format!(
        "Failed to fetch model from {base}/v1/models. Error: "
    )));
    assert!(
        printed
            .out
            .contains("Please specify the correct host and port using `--host` and `--port`.")
    );
    let printed = serve(&[&server[..], &["--ready-check-timeout-sec", "1"]].concat());
    assert_eq!(printed.code, 1);
    assert!(
        printed
            .out
            .contains("Server did not become ready within 1s timeout.")
    );
}

#[test]
fn a_server_that_fails_is_noticed_in_either_mode() {
    let failing = |request: &Request| {
        standard(request, &data_text("tokenizer"))
            .unwrap_or_else(|| Script::whole("503 Service Unavailable", "text/plain", "busy"))
    };
    let bench = Bench::with(failing);
    let printed = bench.run(SHARE_GPT);
    assert_eq!(printed.code, 1);
    assert!(printed.err.contains(
        "Warmup failed - Please make sure benchmark arguments are correctly specified. Error: Service Unavailable: busy"
    ));
    let printed = bench.run(&format!("{SHARE_GPT} --warmup-requests 0"));
    assert_eq!(printed.code, 1);
    assert!(printed.err.contains("All requests failed."));
    assert!(
        printed
            .out
            .contains("Mean E2E Latency (ms):                   n/a")
    );
    let printed = bench.run(&format!("{SHARE_GPT} --warmup-requests 0 --strict"));
    assert_eq!(printed.code, 1);
    assert!(
        printed
            .out
            .contains("  HTTP 503 Service Unavailable:          6")
    );
    assert!(
        printed
            .err
            .contains("6 of 6 requests failed: 6 × HTTP 503 Service Unavailable")
    );
    let result = bench.result();
    assert_eq!(
        (&result["failed"], &result["mean_ttft_ms"]),
        (&json!(6), &Value::Null)
    );
}

#[test]
fn lines_that_the_reference_passes_over_are_told_or_refused() {
    let bench = Bench::new();
    let file = bench.path("custom.jsonl");
    let good = r#"{"conversations": [{"content": "the sea"}, {"content": "is calm and wide"}]}"#;
    std::fs::write(&file, format!("{good}\nnonsense\n{good}\n{{\n")).unwrap();
    let line = format!("--dataset-name custom --dataset-path {file} --warmup-requests 0");
    let printed = bench.run(&line);
    assert_eq!(printed.code, 0, "{}", printed.err);
    assert!(
        printed
            .err
            .contains("2 bad lines of the dataset are passed over, the first: dataset ")
            && printed.err.contains("custom.jsonl line 2: "),
        "{}",
        printed.err
    );
    assert_eq!(bench.bodies("/generate").len(), 2);
    let printed = bench.run(&format!("{line} --strict"));
    assert_eq!(printed.code, 1);
    assert!(printed.err.contains("custom.jsonl line 2: "));
    assert_eq!(bench.bodies("/generate").len(), 2, "nothing more is sent");
}

#[test]
fn fewer_rows_than_asked_for_are_told_when_it_counts() {
    let bench = Bench::new();
    let line = SHARE_GPT.replace("--num-prompts 6", "--num-prompts 6000");
    assert!(!bench.run(&line).err.contains("were asked for"));
    let printed = bench.run(&format!("{line} --strict --warmup-requests 0"));
    assert_eq!(printed.code, 0);
    assert!(
        printed
            .err
            .contains("rows that can be sent, 6000 were asked for")
    );
}

#[test]
fn too_many_failures_end_what_waits_at_the_gate() {
    let failing = |request: &Request| {
        standard(request, &data_text("tokenizer"))
            .unwrap_or_else(|| Script::whole("503 Service Unavailable", "text/plain", "busy"))
    };
    let bench = Bench::with(failing);
    // All rows are due before the twentieth has failed.
    let printed = bench.run(
        "--dataset-name random-ids --random-input-len 4 --random-output-len 2 --num-prompts 500 \
         --request-rate 1000000 --max-concurrency 1 --stop-failed-share 0.5 --warmup-requests 0",
    );
    assert_eq!(printed.code, 1);
    let sent = bench.result()["sent"].as_u64().unwrap();
    assert!((20..100).contains(&sent), "{sent} were sent");
    assert!(
        printed
            .err
            .contains("stopped early: too many requests failed")
    );
}

#[test]
fn a_server_that_dies_half_way_leaves_the_finished_requests() {
    // Rows after the third are cut off.
    let bench = Bench::with(|request| {
        let row_limit = 4;
        if request.path == "/generate" && request.number > row_limit {
            return Script::events(milliseconds(1)).reset(milliseconds(2));
        }
        answer(request)
    });
    let records = bench.path("records.jsonl");
    let printed = bench.run(&format!(
        "{SHARE_GPT} --strict --warmup-requests 0 --max-concurrency 1 --records {records} --fail-above 0.9"
    ));
    assert_eq!(
        printed.code, 0,
        "a share of failures that was allowed: {}",
        printed.err
    );
    let result = bench.result();
    assert!(result["completed"].as_u64().unwrap() >= 1 && result["failed"].as_u64().unwrap() >= 1);
    assert_eq!(
        std::fs::read_to_string(&records).unwrap().lines().count(),
        7
    );
    let printed = bench.run(&format!("{SHARE_GPT} --strict --warmup-requests 0"));
    assert_eq!(printed.code, 1);
}

#[test]
fn failures_that_the_reference_does_not_tell_are_told_beside_its_table() {
    let bench = Bench::with(|request| {
        if request.path == "/generate" && request.number > 4 {
            return Script::events(milliseconds(1)).reset(milliseconds(2));
        }
        answer(request)
    });
    let printed = bench.run(&format!(
        "{SHARE_GPT} --warmup-requests 0 --max-concurrency 1"
    ));
    assert_eq!(printed.code, 0, "as the reference ends");
    assert!(!printed.out.contains("failed"));
    let told = printed
        .err
        .lines()
        .find(|line| line.contains(" of 6 requests failed and are left out ("));
    assert!(
        told.is_some_and(|line| line.ends_with("--strict counts them")),
        "{}",
        printed.err
    );
}

#[test]
fn a_full_disk_is_told_after_the_figures() {
    if !Path::new("/dev/full").exists() {
        println!("skipped: there is no /dev/full");
        return;
    }
    let bench = Bench::new();
    let line = SHARE_GPT.replace("{data}", &data_text(""));
    let base = bench.server.base_url();
    for extra in ["", "--strict"] {
        let mut words = vec![
            "--base-url",
            &base,
            "--output-file",
            "/dev/full",
            "--disable-tqdm",
        ];
        words.extend(line.split_whitespace());
        words.extend(extra.split_whitespace());
        let records = bench.path("records.jsonl");
        if !extra.is_empty() {
            words.extend(["--records", &records]);
        }
        let printed = serve(&words);
        assert_eq!(printed.code, 1);
        assert!(
            printed
                .out
                .contains("Successful requests:                     6")
        );
        assert!(
            printed
                .err
                .contains("cannot write /dev/full: No space left on device"),
            "{}",
            printed.err
        );
    }
    let mut words = vec![
        "--base-url",
        &base,
        "--disable-tqdm",
        "--strict",
        "--records",
        "/dev/full",
    ];
    words.extend(line.split_whitespace());
    assert_eq!(serve(&words).code, 1);
}

#[test]
fn a_cache_that_was_not_emptied_is_not_called_cold() {
    let bench = Bench::with(|request| {
        if request.path.starts_with("/reset_prefix_cache") {
            return Script::whole("404 Not Found", "text/plain", "no such path");
        }
        answer(request)
    });
    let line = format!("{SHARE_GPT} --backend vllm --strict --warmup-requests 0");
    assert_eq!(bench.run(&line).code, 0);
    assert_eq!(
        bench.result()["prefix_cache"]["at_start"],
        "unknown (flush refused)"
    );
    let printed = bench.run(&format!("{line} --cache cold"));
    assert_eq!(printed.code, 1);
    assert!(
        printed.err.contains("cannot flush the cache"),
        "{}",
        printed.err
    );
}

#[test]
fn random_prompts_without_a_file_are_random_ids_and_it_is_said() {
    let bench = Bench::new();
    let line = "--dataset-name random --random-input-len 4 --random-output-len 2 --num-prompts 3";
    for mode in ["", " --strict"] {
        let printed = bench.run(&format!(
            "{line}{mode} --warmup-requests 0 --random-range-ratio 1"
        ));
        assert_eq!(printed.code, 0, "{}", printed.err);
        let note = "sends random token ids (random-ids); name a ShareGPT file";
        assert!(printed.err.contains(note), "{}", printed.err);
        assert_eq!(bench.result()["dataset_name"], json!("random-ids"));
    }
}
