//! Whole runs against scripted servers: what is sent, printed, written and returned.

mod support;

use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use support::{Printed, data_text, run_with, serve};
use testkit::scripted_server::{Generation, Request, Script, ScriptedServer, Voice, standard};

fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A server of every protocol; answers have the length that is asked for.
fn answer(request: &Request) -> Script {
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

struct Bench {
    server: ScriptedServer,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self::with(answer)
    }

    fn with(answer: impl Fn(&Request) -> Script + Send + 'static) -> Self {
        Self { server: ScriptedServer::start(answer).unwrap(), folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Runs `bench serving` on this server; the result goes to `result.jsonl`.
    fn run(&self, line: &str) -> Printed {
        let base = self.server.base_url();
        let result = self.path("result.jsonl");
        let mut words = vec!["--base-url", &base, "--output-file", &result, "--disable-tqdm"];
        let line = line.replace("{data}", &data_text(""));
        words.extend(line.split_whitespace());
        serve(&words)
    }

    fn result(&self) -> Value {
        let text = std::fs::read_to_string(self.path("result.jsonl")).unwrap();
        let line = text.lines().last().unwrap().replace("Infinity", "\"inf\"").replace("NaN", "null");
        serde_json::from_str(&line).unwrap()
    }

    fn bodies(&self, path: &str) -> Vec<Value> {
        let log = self.server.log();
        log.iter().filter(|exchange| exchange.request.path == path).map(|exchange| exchange.request.json()).collect()
    }
}

const SHARE_GPT: &str = "--dataset-name sharegpt --dataset-path {data}conversations.json --num-prompts 6";

#[test]
fn each_backend_is_spoken_to_in_its_own_way() {
    let cases = [
        ("sglang", "/generate", "text,sampling_params,stream,lora_path,return_logprob,logprob_start_len"),
        ("sglang-native", "/generate", "text,sampling_params,stream,lora_path,return_logprob,logprob_start_len"),
        ("sglang-oai", "/v1/completions", "model,prompt,temperature,best_of,max_tokens,stream,ignore_eos"),
        ("vllm", "/v1/completions", "model,prompt,temperature,best_of,max_tokens,stream,ignore_eos"),
        ("lmdeploy", "/v1/completions", "model,prompt,temperature,best_of,max_tokens,stream,ignore_eos"),
        ("sglang-oai-chat", "/v1/chat/completions", "model,messages,temperature,max_completion_tokens,stream,ignore_eos"),
        ("vllm-chat", "/v1/chat/completions", "model,messages,temperature,max_completion_tokens,stream,ignore_eos"),
        ("lmdeploy-chat", "/v1/chat/completions", "model,messages,temperature,max_completion_tokens,stream,ignore_eos"),
        ("trt", "/v2/models/ensemble/generate_stream", "accumulate_tokens,text_input,temperature,top_p,max_tokens,stream,min_length,end_id"),
        ("truss", "/v1/models/model:predict", "model,prompt,temperature,best_of,max_tokens,stream,ignore_eos"),
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
    assert!(printed.out.contains("Successful requests:                     6  "), "{backend}");
    let bodies = bench.bodies(path);
    assert_eq!(bodies.len(), 7, "{backend}: six requests and one warm-up");
    let found: Vec<&str> = bodies[1].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(found.join(","), keys, "{backend}");
    let log = bench.server.log();
    assert!(log.iter().all(|exchange| exchange.request.header("authorization") == Some("secret")));
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
    bench.run(&format!("{SHARE_GPT} --reference 0.5.23 --goodput ttft:1000 --cache-report --output-details --tag t"));
    let new = bench.result();
    for key in ["p90_ttft_ms", "p95_e2e_latency_ms", "slo_attainment", "cache_report", "input_lens",
        "output_lens", "ttfts", "itls", "generated_texts", "errors", "cached_tokens"]
    {
        assert!(new.get(key).is_some(), "{key}");
    }
    assert_eq!((&new["tag"], &new["slo_attainment"]), (&json!("t"), &json!(1.0)));
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
    assert_eq!((&body["sampling_params"]["temperature"], &body["sampling_params"]["top_p"]), (&json!(0.5), &json!(0.9)));
    assert_eq!((&body["stream_interval"], &body["top_logprobs_num"]), (&json!(4), &json!(3)));
    assert_eq!(body["token_ids_logprob"], json!([1, 2]));
    assert_eq!(bodies[0]["sampling_params"]["max_new_tokens"].as_u64().unwrap().min(32), bodies[0]["sampling_params"]["max_new_tokens"].as_u64().unwrap());
    // random.seed(3), then a shuffle of the file, then six choices of two
    assert!(bodies[2..].iter().all(|body| ["x", "y"].contains(&body["lora_path"].as_str().unwrap())));
    let log = bench.server.log();
    assert!(log.iter().any(|exchange| exchange.request.path == "/flush_cache?timeout=60.0"));
    assert!(log.iter().filter(|exchange| exchange.request.path == "/generate").all(|exchange| exchange.request.header("x-one") == Some("1")));
    let ids = Bench::new();
    ids.run("--dataset-name random-ids --random-input-len 7 --random-output-len 3 --num-prompts 2 --tokenize-prompt --random-range-ratio 1");
    assert_eq!(ids.bodies("/generate")[1]["input_ids"].as_array().unwrap().len(), 7);
    let whole = Bench::new();
    let printed = whole.run(&format!("{SHARE_GPT} --backend sglang-oai-chat --disable-stream"));
    assert!(printed.out.contains("Total generated tokens:                  24"));
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
    let lengths: Vec<usize> = bodies.iter().map(|body| body["messages"].as_array().unwrap().len()).collect();
    // warm-up: the one-turn conversation; then conversations of one, two and three turns
    assert_eq!(lengths, [1, 1, 1, 3, 1, 3, 5]);
    assert_eq!(bodies[3]["messages"][1], json!({ "role": "assistant", "content": " the sea is calm" }));
    assert!(printed.out.contains("Successful requests:                     6  "));
    assert!(printed.out.contains("Total input tokens:                      0  "));
}

#[test]
fn a_trace_is_replayed_and_announced() {
    let bench = Bench::new();
    let printed = bench.run(
        "--dataset-name mooncake --dataset-path {data}mooncake.jsonl --mooncake-num-rounds 2 \
         --mooncake-slowdown-factor 0.01",
    );
    assert_eq!(printed.code, 0, "{}", printed.err);
    assert!(printed.out.contains("Using time-based Mooncake request scheduler, ignoring --request-rate."));
    assert!(printed.out.contains("Sessions: 10, Rounds per session: 2. Slowdown factor: 0.01"));
    assert!(printed.out.contains("Successful requests:                     20 "));
    // nine seconds of trace at a hundredth
    assert!(bench.result()["duration"].as_f64().unwrap() >= 0.09);
}

#[test]
fn mistakes_end_with_their_message_and_code() {
    let bench = Bench::new();
    let run = |line: &str| bench.run(line);
    for (line, code, words) in [
        ("--dataset-name sharegpt", 1, "--dataset-path"),
        ("--dataset-name sharegpt --dataset-path /nowhere.json", 1, "/nowhere.json"),
        ("--dataset-name random-ids --model /no/such/model", 1, "/no/such/model"),
        ("--backend truss", 1, "Please provide a model with `--model` when using truss backend."),
        ("--backend trt", 1, "Please provide a model using `--model` when using `trt` backend."),
        ("--backend gserver", 1, "gserver"),
        ("--backend vllm --tokenize-prompt --dataset-name random-ids", 1, "only compatible with `--backend sglang`"),
        ("--print-requests --dataset-name random-ids", 1, "sglang-oai-chat"),
        ("--extra-request-body [1] --dataset-name random-ids", 1, "not a JSON object"),
        ("--lora-request-distribution skewed --dataset-name random-ids", 1, "More than 1 LoRA adapter"),
        ("--lora-zipf-alpha 0.5 --dataset-name random-ids", 1, "of 0.5. It must be greater than 1."),
        ("--backend vllm-embedding --dataset-name mooncake --reference 0.5.23", 1, "unsupported for embeddings"),
        ("--num-prompts 0 --dataset-name random-ids", 1, "no row is left"),
        ("--seed -1 --dataset-name random-ids", 1, "Seed must be between"),
        ("--backend nosuch", 2, "invalid choice"),
        ("--max-concurrency x", 2, "invalid int value"),
        ("--ramp 1:2 --dataset-name random-ids", 2, "FROM:TO:SECONDS"),
        ("--base-url https://x --dataset-name random-ids", 1, "https is not supported"),
    ] {
        let printed = run(line);
        assert_eq!(printed.code, code, "{line}: {}{}", printed.out, printed.err);
        assert!((printed.out + &printed.err).contains(words), "{line}");
    }
    assert!(run("--help").out.contains("--find-max-rate"));
    let gone = Bench::new();
    let base = gone.server.base_url();
    drop(gone);
    let printed = serve(&["--base-url", &base]);
    assert_eq!(printed.code, 1);
    assert!(printed.out.contains(&format!("Failed to fetch model from {base}/v1/models. Error: ")));
    assert!(printed.out.contains("Please specify the correct host and port using `--host` and `--port`."));
    let printed = serve(&["--base-url", &base, "--ready-check-timeout-sec", "1"]);
    assert_eq!(printed.code, 1);
    assert!(printed.out.contains("Server did not become ready within 1s timeout."));
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
    assert!(printed.out.contains("Mean E2E Latency (ms):                   n/a"));
    let printed = bench.run(&format!("{SHARE_GPT} --warmup-requests 0 --strict"));
    assert_eq!(printed.code, 1);
    assert!(printed.out.contains("  HTTP 503 Service Unavailable:          6"));
    assert!(printed.err.contains("6 of 6 requests failed: 6 × HTTP 503 Service Unavailable"));
    let result = bench.result();
    assert_eq!((&result["failed"], &result["mean_ttft_ms"]), (&json!(6), &Value::Null));
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
    assert_eq!(printed.code, 0, "a share of failures that was allowed: {}", printed.err);
    let result = bench.result();
    assert!(result["completed"].as_u64().unwrap() >= 1 && result["failed"].as_u64().unwrap() >= 1);
    assert_eq!(std::fs::read_to_string(&records).unwrap().lines().count(), 7);
    let printed = bench.run(&format!("{SHARE_GPT} --strict --warmup-requests 0"));
    assert_eq!(printed.code, 1);
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
        let mut words = vec!["--base-url", &base, "--output-file", "/dev/full", "--disable-tqdm"];
        words.extend(line.split_whitespace());
        words.extend(extra.split_whitespace());
        let records = bench.path("records.jsonl");
        if !extra.is_empty() {
            words.extend(["--records", &records]);
        }
        let printed = serve(&words);
        assert_eq!(printed.code, 1);
        assert!(printed.out.contains("Successful requests:                     6"));
        assert!(printed.err.contains("cannot write /dev/full: No space left on device"), "{}", printed.err);
    }
    let mut words = vec!["--base-url", &base, "--disable-tqdm", "--strict", "--records", "/dev/full"];
    words.extend(line.split_whitespace());
    assert_eq!(serve(&words).code, 1);
}

#[test]
fn a_strict_run_records_where_and_with_what_it_was_made() {
    let bench = Bench::new();
    let printed = bench.run(&format!("{SHARE_GPT} --strict --slo ttft:1000,tpot:100 --request-rate 50 --pace constant --plot {}", bench.path("page.html")));
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
    assert!(std::fs::read_to_string(bench.path("page.html")).unwrap().contains("<svg"));
}

#[test]
fn an_interrupted_run_is_taken_up_where_it_ended() {
    let bench = Bench::new();
    let records = bench.path("records.jsonl");
    bench.run(&format!("{SHARE_GPT} --strict --warmup-requests 0 --records {records}"));
    let text = std::fs::read_to_string(&records).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 7);
    // As a kill leaves it: three requests, the last line cut short.
    let cut = format!("{}\n{}", lines[..4].join("\n"), &lines[4][..40]);
    std::fs::write(&records, cut).unwrap();
    let before = bench.bodies("/generate").len();
    let printed = bench.run(&format!("{SHARE_GPT} --strict --warmup-requests 0 --resume {records}"));
    assert_eq!(printed.code, 0, "{}", printed.err);
    assert_eq!(bench.bodies("/generate").len() - before, 3, "only what was missing is sent");
    let result = bench.result();
    assert_eq!((&result["completed"], &result["resumed_records"]), (&json!(6), &json!(3)));
    let printed = bench.run(&format!("{SHARE_GPT} --seed 9 --strict --resume {records}"));
    assert_eq!(printed.code, 1);
    assert!(printed.err.contains("another dataset"), "{}", printed.err);
}

#[test]
fn the_highest_rate_that_meets_the_objectives_is_found() {
    let bench = Bench::new();
    let printed = bench.run(
        "--dataset-name random-ids --random-input-len 4 --random-output-len 2 --num-prompts 40 \
         --find-max-rate --slo e2el:60000 --request-rate 400 --warmup-requests 0 --records none",
    );
    // This server has no limit within reach: the search doubles until it may not go on.
    assert_eq!(printed.code, 0, "{}{}", printed.out, printed.err);
    assert!(printed.out.contains("Highest rate that meets e2el:60000 for 99.0 % of requests:"));
    let impossible = bench.run(
        "--dataset-name random-ids --random-input-len 4 --random-output-len 2 --num-prompts 20 \
         --find-max-rate --slo ttft:0.001 --request-rate 0.2 --warmup-requests 0 --records none --duration 0.05",
    );
    assert_eq!(impossible.code, 1);
    assert!(impossible.out.contains("No rate met the objectives."));
}

#[test]
fn the_lmdeploy_client_prints_its_table_and_appends_rows() {
    let bench = Bench::new();
    let printed = bench.run(
        "--client lmdeploy --dataset-name random --dataset-path {data}conversations.json \
         --num-prompts 4 --random-input-len 9 --random-output-len 5 --random-range-ratio 1 --multi --request-rate-range 200,400,1000",
    );
    assert_eq!(printed.code, 0, "{}", printed.err);
    assert!(!printed.out.contains("benchmark_args="));
    assert!(printed.out.contains("Starting initial single prompt test run..."));
    assert!(printed.out.contains("warmup time: 0.0"));
    assert!(printed.out.contains("---------------Inter-token Latency----------------"));
    let keys: Vec<String> = bench.bodies("/generate")[0].as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["text", "sampling_params", "stream"]);
    let rows = std::fs::read_to_string(bench.path("result.jsonl")).unwrap();
    assert!(rows.starts_with("backend,dataset_name,sharegpt_output_len,"));
    assert!(rows.contains("sglang,random,,9,5,1.0,200.0,4,36,20,"));
}

#[test]
fn questions_are_asked_few_shot_and_scored() {
    let bench = Bench::with(|request| {
        let answer = if request.json()["text"].as_str().unwrap_or_default().ends_with("2+2?\nAnswer:") {
            "It is 4."
        } else {
            "I do not know."
        };
        let event = json!({ "text": answer, "meta_info": { "completion_tokens": 5, "finish_reason": {} } });
        Script::events(milliseconds(1)).event(milliseconds(2), &event.to_string()).end(milliseconds(3))
    });
    let questions = bench.path("questions.jsonl");
    std::fs::write(
        &questions,
        "{\"question\": \"2+2?\", \"answer\": \"#### 4\"}\n{\"question\": \"3*3?\", \"answer\": \"#### 9\"}\n",
    )
    .unwrap();
    let port = bench.server.address().port().to_string();
    let words = ["--port", &port, "--data-path", &questions, "--num-shots", "1", "--num-questions", "2", "--parallel", "2"];
    let printed = run_with(bench::gsm8k::main, &words);
    assert_eq!(printed.code, 0, "{}", printed.err);
    assert!(printed.out.contains("Accuracy: 0.500\nInvalid: 0.500\n"), "{}", printed.out);
    let bodies = bench.bodies("/generate");
    assert!(bodies[1]["text"].as_str().unwrap().starts_with("Question: 2+2?\nAnswer: #### 4\n\nQuestion: "));
    assert_eq!(bodies[0]["sampling_params"]["stop"][0], "Question");
    assert_eq!(run_with(bench::gsm8k::main, &["--port", &port]).code, 1);
}

#[test]
fn one_batch_is_one_request_and_its_latency() {
    let bench = Bench::with(|request| {
        if request.path != "/generate" {
            return answer(request);
        }
        let batch = request.json()["input_ids"].as_array().unwrap().len();
        let mut script = Script::events(milliseconds(1));
        for row in 0..batch {
            let event = json!({ "index": row, "text": "a", "meta_info": { "completion_tokens": 1, "finish_reason": null } });
            script = script.event(milliseconds(20 + row as u64), &event.to_string());
        }
        script.event(milliseconds(100), "[DONE]").end(milliseconds(100))
    });
    let base = bench.server.base_url();
    let (results, tokenizer) = (bench.path("batch.jsonl"), data_text("tokenizer"));
    let words = ["--base-url", &base, "--tokenizer", &tokenizer, "--batch-size", "1", "3", "--input-len", "8",
        "--output-len", "4", "--skip-warmup", "--show-report", "--result-filename", &results];
    let printed = run_with(bench::one_batch::main, &words);
    assert_eq!(printed.code, 0, "{}", printed.err);
    assert!(printed.out.contains("batch size: 3\ninput_len: 8\noutput_len: 4\nlatency: 0.1"), "{}", printed.out);
    let lines = std::fs::read_to_string(&results).unwrap();
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((&last["batch_size"], &last["run_name"]), (&json!(3), &json!("default")));
    let first_tokens = last["last_ttft"].as_f64().unwrap();
    assert!((0.022..0.060).contains(&first_tokens), "{first_tokens}");
    assert_eq!(bench.bodies("/generate").len(), 2);
}
