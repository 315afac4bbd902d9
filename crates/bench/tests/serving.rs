//! Whole runs against scripted servers: what is sent, printed, written and returned.
#![expect(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod support;

use serde_json::json;
use support::bench::{Bench, SHARE_GPT};
use support::data_text;

#[test]
fn each_backend_is_spoken_to_in_its_own_way() {
    let cases = [
        (
            "sglang",
            "/generate",
            "text,sampling_params,stream,lora_path,return_logprob,logprob_start_len",
        ),
        (
            "sglang-native",
            "/generate",
            "text,sampling_params,stream,lora_path,return_logprob,logprob_start_len",
        ),
        (
            "sglang-oai",
            "/v1/completions",
            "model,prompt,temperature,best_of,max_tokens,stream,ignore_eos",
        ),
        (
            "vllm",
            "/v1/completions",
            "model,prompt,temperature,best_of,max_tokens,stream,ignore_eos",
        ),
        (
            "lmdeploy",
            "/v1/completions",
            "model,prompt,temperature,best_of,max_tokens,stream,ignore_eos",
        ),
        (
            "sglang-oai-chat",
            "/v1/chat/completions",
            "model,messages,temperature,max_completion_tokens,stream,ignore_eos",
        ),
        (
            "vllm-chat",
            "/v1/chat/completions",
            "model,messages,temperature,max_completion_tokens,stream,ignore_eos",
        ),
        (
            "lmdeploy-chat",
            "/v1/chat/completions",
            "model,messages,temperature,max_completion_tokens,stream,ignore_eos",
        ),
        (
            "trt",
            "/v2/models/ensemble/generate_stream",
            "accumulate_tokens,text_input,temperature,top_p,max_tokens,stream,min_length,end_id",
        ),
        (
            "truss",
            "/v1/models/model:predict",
            "model,prompt,temperature,best_of,max_tokens,stream,ignore_eos",
        ),
        ("sglang-embedding", "/v1/embeddings", "input,model"),
        ("vllm-embedding", "/v1/embeddings", "input,model"),
    ];
    // A run pauses for a second before its load; all backends pause together.
    std::thread::scope(|scope| {
        for (backend, path, keys) in cases {
            scope.spawn(move || speaks(backend, path, keys));
        }
    });
}

fn speaks(backend: &str, path: &str, keys: &str) {
    let bench = Bench::new();
    let model = data_text("tokenizer");
    let printed = bench.run(&format!("--backend {backend} --model {model} {SHARE_GPT}"));
    assert_eq!(printed.code, 0, "{backend}: {}", printed.err);
    assert!(
        printed
            .out
            .contains("Successful requests:                     6  "),
        "{backend}"
    );
    let bodies = bench.bodies(path);
    assert_eq!(bodies.len(), 7, "{backend}: six requests and one warm-up");
    let found: Vec<&str> = bodies[1]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(found.join(","), keys, "{backend}");
    let log = bench.server.log();
    assert!(
        log.iter()
            .all(|exchange| exchange.request.header("authorization") == Some("secret"))
    );
    assert_eq!(bench.result()["completed"], 6, "{backend}");
}

#[test]
fn the_result_line_has_the_keys_of_its_release_in_order() {
    let bench = Bench::new();
    bench.run(SHARE_GPT);
    let old = bench.result();
    let keys: Vec<&String> = old.as_object().unwrap().keys().collect();
    assert_eq!(keys.len(), 42);
    let ends = (keys[0].as_str(), keys[9].as_str(), keys[41].as_str());
    assert_eq!(ends, ("tag", "server_info", "max_concurrent_requests"));
    assert_eq!(old["request_rate"], "inf");
    assert_eq!(old["server_info"]["version"], "scripted");
    bench.run(&format!(
        "{SHARE_GPT} --reference 0.5.23 --goodput ttft:1000 --cache-report --output-details --tag t"
    ));
    let new = bench.result();
    for key in [
        "p90_ttft_ms",
        "p95_e2e_latency_ms",
        "slo_attainment",
        "cache_report",
        "input_lens",
        "output_lens",
        "ttfts",
        "itls",
        "generated_texts",
        "errors",
        "cached_tokens",
    ] {
        assert!(new.get(key).is_some(), "{key}");
    }
    assert_eq!(
        (&new["tag"], &new["slo_attainment"]),
        (&json!("t"), &json!(1.0))
    );
    assert_eq!(new["itls"].as_array().unwrap().len(), 6);
}

#[test]
fn options_change_what_is_sent() {
    let bench = Bench::new();
    let printed = bench.run(&format!(
        "{SHARE_GPT} --seed 3 --lora-name x y --disable-ignore-eos --warmup-requests 2 --max-concurrency 2 \
         --flush-cache --reference 0.5.23 --header X-One=1 --temperature 0.5 --top-p 0.9 \
         --extra-request-body {{\"stream_interval\":4}} --top-logprobs-num 3 --token-ids-logprob 1 2"
    ));
    assert_eq!(printed.code, 0, "{}", printed.err);
    let bodies = bench.bodies("/generate");
    assert_eq!(bodies.len(), 8);
    let body = &bodies[4];
    assert_eq!(body["sampling_params"]["ignore_eos"], false);
    assert_eq!(
        (
            &body["sampling_params"]["temperature"],
            &body["sampling_params"]["top_p"]
        ),
        (&json!(0.5), &json!(0.9))
    );
    assert_eq!(
        (&body["stream_interval"], &body["top_logprobs_num"]),
        (&json!(4), &json!(3))
    );
    assert_eq!(body["token_ids_logprob"], json!([1, 2]));
    assert_eq!(
        bodies[0]["sampling_params"]["max_new_tokens"]
            .as_u64()
            .unwrap()
            .min(32),
        bodies[0]["sampling_params"]["max_new_tokens"]
            .as_u64()
            .unwrap()
    );
    // random.seed(3), then a shuffle of the file, then six choices of two
    assert!(
        bodies[2..]
            .iter()
            .all(|body| ["x", "y"].contains(&body["lora_path"].as_str().unwrap()))
    );
    let log = bench.server.log();
    assert!(
        log.iter()
            .any(|exchange| exchange.request.path == "/flush_cache?timeout=60.0")
    );
    assert!(
        log.iter()
            .filter(|exchange| exchange.request.path == "/generate")
            .all(|exchange| exchange.request.header("x-one") == Some("1"))
    );
    let ids = Bench::new();
    ids.run("--dataset-name random-ids --random-input-len 7 --random-output-len 3 --num-prompts 2 --tokenize-prompt --random-range-ratio 1");
    assert_eq!(
        ids.bodies("/generate")[1]["input_ids"]
            .as_array()
            .unwrap()
            .len(),
        7
    );
    let whole = Bench::new();
    let printed = whole.run(&format!(
        "{SHARE_GPT} --backend sglang-oai-chat --disable-stream"
    ));
    assert!(
        printed
            .out
            .contains("Total generated tokens:                  24")
    );
}

#[test]
fn conversations_send_the_history_with_the_servers_own_words() {
    let bench = Bench::new();
    let printed = bench.run(
        "--backend sglang-oai-chat --dataset-name agentic-trace --dataset-path {data}agents.json \
         --num-prompts 3 --sharegpt-output-len 4 --reference 0.5.23 --max-concurrency 1",
    );
    assert_eq!(printed.code, 0, "{}", printed.err);
    let bodies = bench.bodies("/v1/chat/completions");
    let lengths: Vec<usize> = bodies
        .iter()
        .map(|body| body["messages"].as_array().unwrap().len())
        .collect();
    // warm-up: the one-turn conversation; then conversations of one, two and three turns
    assert_eq!(lengths, [1, 1, 1, 3, 1, 3, 5]);
    assert_eq!(
        bodies[3]["messages"][1],
        json!({ "role": "assistant", "content": " the sea is calm" })
    );
    assert!(
        printed
            .out
            .contains("Successful requests:                     6  ")
    );
    assert!(
        printed
            .out
            .contains("Total input tokens:                      0  ")
    );
}

#[test]
fn a_trace_is_replayed_and_announced() {
    let bench = Bench::new();
    let printed = bench.run(
        "--dataset-name mooncake --dataset-path {data}mooncake.jsonl --mooncake-num-rounds 2 \
         --mooncake-slowdown-factor 0.01",
    );
    assert_eq!(printed.code, 0, "{}", printed.err);
    assert!(
        printed
            .out
            .contains("Using time-based Mooncake request scheduler, ignoring --request-rate.")
    );
    assert!(
        printed
            .out
            .contains("Sessions: 10, Rounds per session: 2. Slowdown factor: 0.01")
    );
    assert!(
        printed
            .out
            .contains("Successful requests:                     20 ")
    );
    // nine seconds of trace at a hundredth
    assert!(bench.result()["duration"].as_f64().unwrap() >= 0.09);
}

#[test]
fn a_strict_run_records_where_and_with_what_it_was_made() {
    let bench = Bench::new();
    let printed = bench.run(&format!(
        "{SHARE_GPT} --strict --slo ttft:1000,tpot:100 --request-rate 50 --pace constant --plot {}",
        bench.path("page.html")
    ));
    assert_eq!(printed.code, 0, "{}{}", printed.out, printed.err);
    let result = bench.result();
    let facts = &result["provenance"];
    assert_eq!(facts["arguments"]["request-rate"], 50.0);
    assert_eq!(facts["seed"], 1);
    assert_eq!(facts["dataset"]["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(facts["tokenizer"]["sha256"].as_str().unwrap().len(), 64);
    assert!(facts["machine"]["cores"].as_u64().unwrap() >= 1);
    assert_eq!(result["server_info"]["before"]["version"], "scripted");
    assert_eq!(result["server_info"]["after"]["version"], "scripted");
    assert_eq!(result["client"]["limited"], false);
    assert_eq!(result["prefix_cache"]["at_start"], "cold (flushed)");
    assert_eq!(result["goodput"]["attainment"], 1.0);
    assert_eq!(result["output_tokens_counted_by"], json!(["server"]));
    assert!(
        std::fs::read_to_string(bench.path("page.html"))
            .unwrap()
            .contains("<svg")
    );
}

#[test]
fn an_interrupted_run_is_taken_up_where_it_ended() {
    let bench = Bench::new();
    let records = bench.path("records.jsonl");
    bench.run(&format!(
        "{SHARE_GPT} --strict --warmup-requests 0 --records {records}"
    ));
    let text = std::fs::read_to_string(&records).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 7);
    // As a kill leaves it: three requests, the last line cut short.
    let cut = format!("{}\n{}", lines[..4].join("\n"), &lines[4][..40]);
    std::fs::write(&records, cut).unwrap();
    let before = bench.bodies("/generate").len();
    let printed = bench.run(&format!(
        "{SHARE_GPT} --strict --warmup-requests 0 --resume {records}"
    ));
    assert_eq!(printed.code, 0, "{}", printed.err);
    assert_eq!(
        bench.bodies("/generate").len() - before,
        3,
        "only what was missing is sent"
    );
    let result = bench.result();
    assert_eq!(
        (&result["completed"], &result["resumed_records"]),
        (&json!(6), &json!(3))
    );
    let printed = bench.run(&format!("{SHARE_GPT} --seed 9 --strict --resume {records}"));
    assert_eq!(printed.code, 1);
    assert!(printed.err.contains("another dataset"), "{}", printed.err);
}

/// Options of a search that lasts a moment.
const SEARCH: &str = "--dataset-name random-ids --random-input-len 4 --random-output-len 2 \
     --find-max-rate --warmup-requests 0 --records none";

#[test]
fn the_highest_rate_that_meets_the_objectives_is_found() {
    let bench = Bench::new();
    let page = bench.path("page.html");
    let printed = bench.run(&format!(
        "{SEARCH} --num-prompts 40 --slo e2el:60000 --request-rate 100 --attainment 0.5 --plot {page}"
    ));
    // The rows end before they show anything.
    assert_eq!(printed.code, 1, "{}{}", printed.out, printed.err);
    assert!(printed.err.contains("give --duration"), "{}", printed.err);
    assert!(!printed.out.contains("No rate met"));
    let printed = bench.run(&format!(
        "{SEARCH} --num-prompts 40 --slo e2el:60000 --request-rate 200 --attainment 0.5 \
         --duration 0.1 --plot {page}"
    ));
    // This server has no limit within reach: the search doubles until the client is the limit.
    assert_eq!(printed.code, 0, "{}{}", printed.out, printed.err);
    let words = "Highest rate that meets e2el:60000 for 50.0 % of requests: at least ";
    assert!(printed.out.contains(words), "{}", printed.out);
    assert!(std::fs::read_to_string(&page).unwrap().contains("<svg"));
    let result = bench.result();
    assert_eq!(result["max_rate_interrupted"], json!(false));
    assert_eq!(result["max_rate_interval"][0], result["max_rate"]);
    assert_eq!(result["max_rate_confidence"], json!(0.9));
    let impossible = bench.run(&format!(
        "{SEARCH} --num-prompts 20 --slo ttft:0.001 --request-rate 0.2 --duration 0.05"
    ));
    assert_eq!(impossible.code, 1);
    assert!(impossible.out.contains("No rate met the objectives."));
}

#[test]
fn a_share_that_the_requests_cannot_show_is_refused() {
    let bench = Bench::new();
    let line = format!("{SEARCH} --slo e2el:60000 --request-rate 5");
    let printed = bench.run(&format!("{line} --num-prompts 40"));
    assert_eq!(printed.code, 1, "{}", printed.out);
    let words = "40 requests, 6 times at a rate, cannot show that 99.0 % meet the objectives";
    assert!(printed.err.contains(words), "{}", printed.err);
    assert!(bench.bodies("/generate").is_empty(), "nothing was sent");
}

#[test]
fn a_duration_is_filled_however_few_the_rows_are() {
    let bench = Bench::new();
    let printed = bench.run(
        "--dataset-name random-ids --random-input-len 4 --random-output-len 2 --random-range-ratio 1 \
         --num-prompts 2 --lora-name a b --lora-request-distribution distinct --duration 0.4 --max-concurrency 4 \
         --warmup-requests 0 --records none",
    );
    assert_eq!(printed.code, 0, "{}", printed.err);
    let result = bench.result();
    let sent = result["sent"].as_u64().unwrap();
    // Four at once, each done after six milliseconds or a little more.
    assert!(sent > 10, "{sent} were sent");
    assert!(result["duration"].as_f64().unwrap() > 0.35);
    let bodies = bench.bodies("/generate");
    assert_eq!(bodies.len() as u64, sent);
    assert!(bodies.iter().all(|body| body["lora_path"].is_string()));
}

#[test]
fn details_are_in_the_result_of_a_strict_run_too() {
    let bench = Bench::new();
    let line = format!("{SHARE_GPT} --strict --output-details --warmup-requests 0");
    assert_eq!(bench.run(&line).code, 0);
    let result = bench.result();
    for key in [
        "input_lens",
        "output_lens",
        "ttfts",
        "scheduled_ttfts",
        "e2e_latencies",
        "itls",
        "generated_texts",
        "errors",
    ] {
        assert_eq!(result[key].as_array().map(Vec::len), Some(6), "{key}");
    }
    let outputs = result["output_lens"].as_array().unwrap();
    for (gaps, output) in result["itls"].as_array().unwrap().iter().zip(outputs) {
        assert_eq!(
            gaps.as_array().unwrap().len() as u64 + 1,
            output.as_u64().unwrap()
        );
    }
    assert!(result["ttfts"][0].as_f64().unwrap() >= 0.005);
    assert_eq!(result["errors"][0], json!(""));
}
