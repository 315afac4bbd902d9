//! The fifteen defects of the reference, by their numbers in the specification: what strict mode
//! does instead, seen from outside.
#![expect(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod support;

use bench::client::OwnBehaviour;
use bench::measure::own::ClientHealth;
use bench::process_usage;
use bench::record::{Asked, Due, RequestRecord};
use serde_json::{Value, json};
use std::time::Duration;
use support::bench::{Bench, SHARE_GPT, answer, milliseconds};
use support::data_text;
use testkit::scripted_server::{Generation, Request, Script, Voice, standard};

/// Prompts of token ids, all alike in length.
const IDS: &str = "--dataset-name random-ids --random-range-ratio 1 --random-input-len 6 \
                   --random-output-len 8 --warmup-requests 0";

/// A server of steady streams that knows every path.
fn steady(make: impl Fn(Generation) -> Generation + Send + 'static) -> Bench {
    Bench::with(move |request: &Request| {
        if let Some(script) = standard(request, &data_text("tokenizer")) {
            return script;
        }
        let body = request.json();
        let (voice, asked) = match request.path.as_str() {
            "/generate" => (Voice::Native, &body["sampling_params"]["max_new_tokens"]),
            _ => (Voice::Completions, &body["max_tokens"]),
        };
        let tokens = asked.as_u64().unwrap_or(1) as usize;
        make(Generation::steady(
            voice,
            tokens,
            milliseconds(5),
            milliseconds(1),
        ))
        .script()
    })
}

fn number(result: &Value, key: &str) -> f64 {
    result[key]
        .as_f64()
        .unwrap_or_else(|| panic!("{key}: {}", result[key]))
}

#[test]
fn defect_1_waiting_at_the_gate_is_part_of_latency() {
    let bench = steady(|generation| Generation {
        first: milliseconds(40),
        ..generation
    });
    let printed = bench.run(&format!(
        "{IDS} --num-prompts 8 --strict --request-rate 1000 --max-concurrency 1"
    ));
    assert_eq!(printed.code, 0, "{}", printed.err);
    let result = bench.result();
    // The last of eight waits for seven others.
    assert!(number(&result, "median_ttft_ms") < 100.0);
    assert!(number(&result, "max_scheduled_ttft_ms") > 7.0 * 40.0);
    assert!(number(&result, "max_queue_ms") > 6.0 * 40.0);
    for head in [
        "Latency from schedule",
        "Latency from send",
        "Client Queue Time",
    ] {
        assert!(printed.out.contains(head), "{head}");
    }
}

#[test]
fn defect_2_arrivals_keep_absolute_deadlines_and_the_rate_is_told() {
    let bench = Bench::new();
    let printed = bench.run(&format!(
        "{IDS} --num-prompts 120 --pace constant --request-rate 200"
    ));
    assert_eq!(printed.code, 0, "{}", printed.err);
    let achieved = number(&bench.result(), "achieved_request_rate");
    assert!((achieved / 200.0 - 1.0).abs() < 0.05, "{achieved}");
    assert!(printed.out.contains("Target request rate (req/s):"));
    assert!(printed.out.contains("Achieved request rate (req/s):"));
}

#[test]
fn defect_2_only_requests_that_were_sent_late_miss_their_rate() {
    let bench = steady(|generation| generation);
    let words = "though they were due at";
    for (line, missed) in [
        (
            "--num-prompts 60 --request-rate 2000 --max-concurrency 1",
            true,
        ),
        ("--num-prompts 60 --ramp 40:120:0.8", false),
        (
            "--num-prompts 60 --request-rate 80 --pace gamma --burstiness 0.1",
            false,
        ),
        ("--num-prompts 60", false),
    ] {
        let printed = bench.run(&format!("{IDS} {line} --strict --warmup-requests 0"));
        assert_eq!(
            printed.err.contains(words),
            missed,
            "{line}: {}",
            printed.err
        );
    }
}

#[test]
fn defect_3_an_error_inside_a_stream_is_a_failure_and_ends_with_one() {
    let bench = Bench::with(|request| match request.path.as_str() {
        "/generate" => Script::events(milliseconds(1))
            .event(
                milliseconds(2),
                r#"{"text":"a","meta_info":{"completion_tokens":1}}"#,
            )
            .event(milliseconds(3), r#"{"error":{"message":"out of memory"}}"#)
            .event(milliseconds(4), "[DONE]")
            .end(milliseconds(4)),
        _ => answer(request),
    });
    let compat = bench.run(&format!("{IDS} --num-prompts 3"));
    assert_eq!(compat.code, 0, "the reference sees nothing wrong");
    let strict = bench.run(&format!("{IDS} --num-prompts 3 --strict"));
    assert_eq!(strict.code, 1);
    let line = "Failed requests:                         3";
    assert!(strict.out.contains(line), "{}", strict.out);
    assert!(strict.out.contains("  error in the stream:"));
    assert_eq!(bench.result()["failures"]["error in the stream"], 3);
}

#[test]
fn defect_4_tokens_are_asked_for_or_counted_and_the_source_is_told() {
    let bench = steady(|generation| generation);
    let line = format!("{IDS} --num-prompts 3 --backend vllm");
    bench.run(&format!("{line} --strict"));
    let body = &bench.bodies("/v1/completions")[0];
    assert_eq!(body["stream_options"]["include_usage"], true);
    // This server tells no usage all the same: its texts are counted.
    assert_eq!(
        bench.result()["output_tokens_counted_by"],
        json!(["retokenized"])
    );
    bench.run(&line);
    let bodies = bench.bodies("/v1/completions");
    assert_eq!(bodies.last().unwrap().get("stream_options"), None);
}

#[test]
fn defect_5_tokens_that_come_together_share_their_gap() {
    let bench = steady(|generation| Generation {
        tokens_per_event: 4,
        gap: milliseconds(40),
        ..generation
    });
    let line = format!("{IDS} --random-output-len 16 --num-prompts 4 --backend vllm");
    bench.run(&line);
    let compat = bench.result();
    bench.run(&format!("{line} --strict"));
    let strict = bench.result();
    // Four words an event, each of one token or more.
    let ratio = number(&compat, "mean_itl_ms") / number(&strict, "mean_itl_ms");
    assert!(ratio > 3.0, "{ratio}");
    let peaks = [&compat, &strict].map(|result| number(result, "max_output_tokens_per_s"));
    assert!(peaks[1] >= 3.0 * peaks[0], "{peaks:?}");
}

#[test]
fn defect_6_peak_concurrency_is_never_above_the_gate() {
    let bench = Bench::new();
    let line = format!("{IDS} --num-prompts 24 --max-concurrency 3");
    bench.run(&line);
    assert!(number(&bench.result(), "max_concurrent_requests") > 3.0);
    bench.run(&format!("{line} --strict"));
    assert!(number(&bench.result(), "max_concurrent_requests") <= 3.0);
}

#[test]
fn defect_7_warm_up_covers_the_shapes_until_the_server_is_steady() {
    let bench = steady(|generation| generation);
    let printed = bench.run(
        "--dataset-name random-ids --random-input-len 40 --random-output-len 4 --num-prompts 30 \
         --tokenize-prompt --strict",
    );
    assert_eq!(printed.code, 0, "{}", printed.err);
    let lengths: Vec<usize> = bench
        .bodies("/generate")
        .iter()
        .map(|body| body["input_ids"].as_array().unwrap().len())
        .collect();
    let warm_up = bench.result()["warm_up"].clone();
    assert!(warm_up["rounds"].as_u64().unwrap() >= 2);
    let sent = warm_up["requests"].as_u64().unwrap() as usize;
    let (warm, load) = lengths.split_at(sent);
    assert_eq!(
        (warm.iter().min(), warm.iter().max()),
        (load.iter().min(), load.iter().max())
    );
    assert!(printed.out.contains("Warm-up: "), "{}", printed.out);
}

#[test]
fn defect_8_hits_in_a_run_that_began_cold_are_told() {
    let bench = Bench::with(|request| {
        match request.path.as_str() {
        "/generate" => Script::events(milliseconds(1))
            .event(
                milliseconds(2),
                r#"{"text":"a","meta_info":{"completion_tokens":1,"prompt_tokens":6,"cached_tokens":3,"finish_reason":{}}}"#,
            )
            .event(milliseconds(3), "[DONE]")
            .end(milliseconds(3)),
        _ => answer(request),
    }
    });
    let printed = bench.run(&format!("{IDS} --num-prompts 3 --strict"));
    let cache = bench.result()["prefix_cache"].clone();
    assert_eq!(cache["at_start"], "cold (flushed)");
    assert_eq!(cache["hit_rate"], 0.5);
    assert!(
        printed
            .err
            .contains("50.0 % of prompt tokens were found in a prefix cache that began cold"),
        "{}",
        printed.err
    );
    let log = bench.server.log();
    assert!(
        log.iter()
            .any(|one| one.request.path.starts_with("/flush_cache"))
    );
    bench.run(&format!("{IDS} --num-prompts 3 --cache as-is"));
    assert_eq!(bench.result()["prefix_cache"]["at_start"], "as it was");
}

#[test]
fn defect_8_hits_in_a_cache_that_was_not_emptied_are_told() {
    let bench = Bench::with(|request| {
        match request.path.as_str() {
        "/generate" => Script::events(milliseconds(1))
            .event(
                milliseconds(2),
                r#"{"text":"a","meta_info":{"completion_tokens":1,"prompt_tokens":6,"cached_tokens":3}}"#,
            )
            .event(milliseconds(3), "[DONE]")
            .end(milliseconds(3)),
        path if path.starts_with("/flush_cache") => {
            Script::whole("404 Not Found", "text/plain", "no such path")
        }
        _ => answer(request),
    }
    });
    let printed = bench.run(&format!("{IDS} --num-prompts 3 --strict"));
    let words =
        "50.0 % of prompt tokens were found in a prefix cache that the server did not empty";
    assert!(printed.err.contains(words), "{}", printed.err);
}

#[test]
fn defect_9_the_duration_ends_with_the_last_byte() {
    let bench = Bench::with(|request| {
        if request.path.contains("server_info") {
            let mut slow = Script::json(&json!({ "version": "slow" }));
            for step in &mut slow.steps {
                step.after = milliseconds(500);
            }
            return slow;
        }
        answer(request)
    });
    let line = format!("{IDS} --num-prompts 3");
    bench.run(&line);
    assert!(number(&bench.result(), "duration") >= 0.5);
    bench.run(&format!("{line} --strict"));
    assert!(number(&bench.result(), "duration") < 0.4);
}

#[test]
fn defect_10_prompts_of_another_length_than_meant_are_told() {
    let bench = steady(|generation| Generation {
        prompt_tokens: 9,
        ..generation
    });
    let printed = bench.run(&format!("{IDS} --num-prompts 3 --strict"));
    let result = bench.result();
    assert_eq!(
        (
            &result["total_input_tokens_dataset"],
            &result["total_input_tokens_server"]
        ),
        (&json!(18), &json!(27))
    );
    let told = "prompts have 27 tokens by the server and 18 by the dataset";
    assert!(printed.err.contains(told), "{}", printed.err);
}

#[test]
fn defect_11_the_result_is_valid_json_with_its_provenance() {
    let bench = Bench::new();
    bench.run(&format!(
        "{IDS} --num-prompts 3 --strict --seed 5 --disable-stream"
    ));
    let text = std::fs::read_to_string(bench.path("result.jsonl")).unwrap();
    let result: Value = serde_json::from_str(text.trim_end()).unwrap();
    assert_eq!(result["request_rate"], "inf");
    let facts = &result["provenance"];
    assert_eq!(
        (&facts["seed"], &facts["arguments"]["seed"]),
        (&json!(5), &json!(5))
    );
    for key in ["client", "time", "model", "tokenizer", "dataset", "machine"] {
        assert!(!facts[key].is_null(), "{key}");
    }
    for key in [
        "host",
        "kernel",
        "cpu",
        "cores",
        "memory",
        "gpus",
        "gpu_driver",
    ] {
        assert!(facts["machine"].get(key).is_some(), "{key}");
    }
    assert!(result["server_info"]["before"].is_object());
    assert!(result["server_info"]["after"].is_object());
}

#[test]
fn defect_12_a_client_that_cannot_keep_up_is_told() {
    let bench = Bench::new();
    // Other tests of this process count as its own work, so that it may need a second try.
    let is_free = (0..20).any(|_| {
        let printed = bench.run(&format!("{IDS} --num-prompts 3 --strict"));
        let limited = bench.result()["client"]["limited"] == true;
        let word = if limited { "yes" } else { "no" };
        let line = format!("Client-limited:                          {word}");
        assert!(printed.out.contains(&line), "{}", printed.out);
        !limited
    });
    assert!(is_free);
    // Let go in time, sent 50 ms later.
    let record = |row: u64| {
        let due = Due::at(bench::clock::Nanos(row * 1_000_000));
        let sent = bench::clock::Nanos(row * 1_000_000 + 50_000_000);
        RequestRecord::begun(row as usize, 0, due, sent, Asked::default())
    };
    let records: Vec<RequestRecord> = (0..10).map(record).collect();
    let usage = process_usage();
    let wall = (Duration::from_secs(1), 1);
    let late = ClientHealth::of(&OwnBehaviour::default(), &records, (usage, usage), wall);
    assert_eq!(late.limits, ["sends lag by 50.0 ms (p99)"]);
    let mut after = usage;
    after.cpu += Duration::from_millis(950);
    let busy = ClientHealth::of(&OwnBehaviour::default(), &[], (usage, after), wall);
    assert_eq!(busy.limits, ["its threads are 95 % busy"]);
}

#[test]
fn defect_13_every_backend_follows_a_trace() {
    for backend in ["vllm", "sglang-oai-chat"] {
        let bench = Bench::new();
        let printed = bench.run(&format!(
            "--backend {backend} --dataset-name mooncake --dataset-path {{data}}mooncake.jsonl \
             --mooncake-slowdown-factor 0.05 --use-trace-timestamps --warmup-requests 0 --strict"
        ));
        assert_eq!(printed.code, 0, "{}", printed.err);
        // nine seconds of trace at a twentieth
        assert!(number(&bench.result(), "duration") >= 0.45);
        assert_eq!(bench.result()["pace"], "trace");
    }
}

#[test]
fn defect_14_shared_prefixes_are_made_for_the_tokenizer_at_hand() {
    let bench = Bench::new();
    let tokenizer = std::fs::read_to_string(data_text("tokenizer/tokenizer.json")).unwrap();
    let mut other: Value = serde_json::from_str(&tokenizer).unwrap();
    // A word with the same class of tokenizer but another vocabulary.
    let vocabulary = other["model"]["vocab"].as_object_mut().unwrap();
    let (first, second) = (vocabulary["a"].clone(), vocabulary["b"].clone());
    vocabulary.insert("a".to_owned(), second);
    vocabulary.insert("b".to_owned(), first);
    let folder = bench.folder.path().join("other");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("tokenizer.json"), other.to_string()).unwrap();
    let run = |tokenizer: &str| {
        let printed = bench.run(&format!(
            "--dataset-name generated-shared-prefix --gsp-num-groups 2 --gsp-prompts-per-group 3 \
             --gsp-system-prompt-len 200 --gsp-question-len 20 --gsp-output-len 4 \
             --warmup-requests 0 --strict --tokenizer {tokenizer}"
        ));
        assert_eq!(printed.code, 0, "{}", printed.err);
        bench.result()["provenance"].clone()
    };
    let (one, two) = (run(&data_text("tokenizer")), run(folder.to_str().unwrap()));
    assert_ne!(one["dataset"]["sha256"], two["dataset"]["sha256"]);
    assert_ne!(one["tokenizer"]["sha256"], two["tokenizer"]["sha256"]);
}

#[test]
fn defect_15_a_run_without_success_has_a_report() {
    let bench = Bench::with(|request| match request.path.as_str() {
        "/generate" => Script::whole("503 Service Unavailable", "text/plain", "busy"),
        _ => answer(request),
    });
    let printed = bench.run(&format!("{SHARE_GPT} --strict --warmup-requests 0"));
    assert_eq!(printed.code, 1);
    assert!(
        printed
            .out
            .contains("Mean TTFT (ms):                          n/a")
    );
    assert_eq!(bench.result()["mean_ttft_ms"], Value::Null);
}
