//! The other clients: LMDeploy's manner, one batch, and questions with answers.
#![expect(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod support;

use serde_json::{Value, json};
use support::bench::{Bench, answer, milliseconds};
use support::{data_text, run_with};
use testkit::scripted_server::Script;

#[test]
fn the_lmdeploy_client_prints_its_table_and_appends_rows() {
    let bench = Bench::new();
    let printed = bench.run(
        "--client lmdeploy --dataset-name random --dataset-path {data}conversations.json \
         --num-prompts 4 --random-input-len 9 --random-output-len 5 --random-range-ratio 1 --multi --request-rate-range 200,400,1000",
    );
    assert_eq!(printed.code, 0, "{}", printed.err);
    assert!(!printed.out.contains("benchmark_args="));
    assert!(
        printed
            .out
            .contains("Starting initial single prompt test run...")
    );
    assert!(printed.out.contains("warmup time: 0.0"));
    assert!(
        printed
            .out
            .contains("---------------Inter-token Latency----------------")
    );
    let keys: Vec<String> = bench.bodies("/generate")[0]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    assert_eq!(keys, ["text", "sampling_params", "stream"]);
    let rows = std::fs::read_to_string(bench.path("result.jsonl")).unwrap();
    assert!(rows.starts_with("backend,dataset_name,sharegpt_output_len,"));
    assert!(rows.contains("sglang,random,,9,5,1.0,200.0,4,36,20,"));
}

#[test]
fn questions_are_asked_few_shot_and_scored() {
    let bench = Bench::with(|request| {
        let answer = if request.json()["text"]
            .as_str()
            .unwrap_or_default()
            .ends_with("2+2?\nAnswer:")
        {
            "It is 4."
        } else {
            "I do not know."
        };
        let event =
            json!({ "text": answer, "meta_info": { "completion_tokens": 5, "finish_reason": {} } });
        Script::events(milliseconds(1))
            .event(milliseconds(2), &event.to_string())
            .end(milliseconds(3))
    });
    let questions = bench.path("questions.jsonl");
    std::fs::write(
        &questions,
        "{\"question\": \"2+2?\", \"answer\": \"#### 4\"}\n{\"question\": \"3*3?\", \"answer\": \"#### 9\"}\n",
    )
    .unwrap();
    let port = bench.server.address().port().to_string();
    let words = [
        "--port",
        &port,
        "--data-path",
        &questions,
        "--num-shots",
        "1",
        "--num-questions",
        "2",
        "--parallel",
        "2",
    ];
    let printed = run_with(bench::gsm8k::main, &words);
    assert_eq!(printed.code, 0, "{}", printed.err);
    assert!(
        printed.out.contains("Accuracy: 0.500\nInvalid: 0.500\n"),
        "{}",
        printed.out
    );
    let bodies = bench.bodies("/generate");
    assert!(
        bodies[1]["text"]
            .as_str()
            .unwrap()
            .starts_with("Question: 2+2?\nAnswer: #### 4\n\nQuestion: ")
    );
    assert_eq!(bodies[0]["sampling_params"]["stop"][0], "Question");
    assert_eq!(run_with(bench::gsm8k::main, &["--port", &port]).code, 1);
    drop(bench.server);
    let printed = run_with(bench::gsm8k::main, &words);
    assert_eq!(printed.code, 1);
    let words = "Failed requests: 2\nThe first of them: cannot connect: connection refused";
    assert!(printed.out.contains(words), "{}", printed.out);
}

#[test]
fn a_batch_of_nothing_is_refused() {
    for (words, reason) in [
        (
            ["--batch-size", "0"],
            "--batch-size: expected numbers of at least 1, got '0'",
        ),
        (
            ["--output-len", "-4"],
            "--output-len: expected numbers of at least 1, got '-4'",
        ),
    ] {
        let printed = run_with(bench::one_batch::main, &words);
        assert_eq!(printed.code, 2, "{}", printed.err);
        assert!(printed.err.contains(reason), "{}", printed.err);
    }
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
        script
            .event(milliseconds(100), "[DONE]")
            .end(milliseconds(100))
    });
    let base = bench.server.base_url();
    let (results, tokenizer) = (bench.path("batch.jsonl"), data_text("tokenizer"));
    let words = [
        "--base-url",
        &base,
        "--tokenizer",
        &tokenizer,
        "--batch-size",
        "1",
        "3",
        "--input-len",
        "8",
        "--output-len",
        "4",
        "--skip-warmup",
        "--show-report",
        "--result-filename",
        &results,
    ];
    let printed = run_with(bench::one_batch::main, &words);
    assert_eq!(printed.code, 0, "{}", printed.err);
    assert!(
        printed
            .out
            .contains("batch size: 3\ninput_len: 8\noutput_len: 4\nlatency: 0.1"),
        "{}",
        printed.out
    );
    let lines = std::fs::read_to_string(&results).unwrap();
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["batch_size"], &last["run_name"]),
        (&json!(3), &json!("default"))
    );
    let first_tokens = last["last_ttft"].as_f64().unwrap();
    assert!((0.022..0.060).contains(&first_tokens), "{first_tokens}");
    assert_eq!(bench.bodies("/generate").len(), 2);
}

#[test]
fn a_batch_that_fits_no_cache_is_no_result() {
    let bench = Bench::with(|request| {
        if !request.path.contains("server_info") {
            return answer(request);
        }
        let states = json!([{ "memory_usage": { "token_capacity": 64 } }]);
        Script::json(&json!({ "internal_states": states }))
    });
    let base = bench.server.base_url();
    let (results, tokenizer) = (bench.path("none.jsonl"), data_text("tokenizer"));
    let words = [
        "--base-url",
        &base,
        "--tokenizer",
        &tokenizer,
        "--input-len",
        "100",
        "--skip-warmup",
        "--result-filename",
        &results,
    ];
    let printed = run_with(bench::one_batch::main, &words);
    assert_eq!(printed.code, 1, "{}", printed.out);
    let reason = "nothing was measured: no shape fits the server's cache of 64 tokens";
    assert!(printed.err.contains(reason), "{}", printed.err);
    assert!(bench.bodies("/generate").is_empty());
}
