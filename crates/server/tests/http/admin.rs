//! Health, information, cache, metrics and the rest.

use expect_test::expect;
use serde_json::{Value, json};

use crate::harness::{Setup, masked, start, start_gated};

#[tokio::test]
async fn the_model_and_the_server_are_described() {
    let server = start().await;
    let info = server.client().get("/model_info").await.json();
    expect![[r#"
        {
          "model_path": "/models/tiny",
          "tokenizer_path": "/models/tiny",
          "is_generation": true,
          "preferred_sampling_params": null,
          "weight_version": "default",
          "has_image_understanding": false,
          "has_audio_understanding": false,
          "model_type": "llama",
          "architectures": [
            "LlamaForCausalLM"
          ]
        }"#]]
    .assert_eq(&masked(info.clone()));
    assert_eq!(server.client().get("/get_model_info").await.json(), info);
    let info = server.client().get("/server_info").await.json();
    expect![[r#"
        {
          "model_path": "tiny",
          "tp_size": 1,
          "no_effect": [
            "--trust-remote-code"
          ],
          "max_total_num_tokens": 4096,
          "max_req_len": 511,
          "max_req_input_len": 506,
          "max_running_requests": 16,
          "status": "ready",
          "startup_time": "<startup_time>",
          "internal_states": [
            {
              "model_path": "tiny",
              "tp_size": 1,
              "no_effect": [
                "--trust-remote-code"
              ],
              "last_gen_throughput": 0.0,
              "memory_usage": {
                "weight": 0.1,
                "kvcache": 0.2
              },
              "num_running_reqs": 0,
              "num_queue_reqs": 0,
              "open_requests": 0,
              "open_sequences": 0,
              "step_times": "<step_times>"
            }
          ],
          "version": "0.1.0"
        }"#]]
    .assert_eq(&masked(info.clone()));
    assert_eq!(
        server.client().get("/get_server_info").await.json()["version"],
        info["version"]
    );
}

#[tokio::test]
async fn models_are_listed() {
    let server = start().await;
    let list = server.client().get("/v1/models").await.json();
    expect![[r#"
        {
          "object": "list",
          "data": [
            {
              "id": "org/tiny",
              "object": "model",
              "created": "<created>",
              "owned_by": "sglang",
              "root": "org/tiny",
              "parent": null,
              "max_model_len": 512
            }
          ]
        }"#]]
    .assert_eq(&masked(list.clone()));
    let one = server.client().get("/v1/models/org/tiny").await.json();
    assert_eq!(one, list["data"][0]);
    let missing = server.client().get("/v1/models/other").await;
    assert_eq!(missing.status, 404);
    assert_eq!(missing.json()["error"]["code"], "model_not_found");
}

#[tokio::test]
async fn text_becomes_tokens_and_back() {
    let server = start().await;
    let client = server.client();
    for (path, body, expected) in [
        (
            "/tokenize",
            json!({"prompt": "hé"}),
            json!({"tokens": [104, 195, 169], "count": 3, "max_model_len": 512}),
        ),
        (
            "/v1/tokenize",
            json!({"prompt": ["h", ""]}),
            json!({"tokens": [[104], []], "count": [1, 0], "max_model_len": 512}),
        ),
        (
            "/v1/tokenize",
            json!({"messages": [{"role": "user", "content": "hé"}], "model": "any"}),
            json!({"tokens": [104, 195, 169, 10], "count": 4, "max_model_len": 512}),
        ),
        (
            "/detokenize",
            json!({"tokens": [104, 195, 169, 256]}),
            json!({"text": "hé"}),
        ),
        (
            "/v1/detokenize",
            json!({"tokens": [[104], [256]], "skip_special_tokens": false}),
            json!({"text": ["h", "<|end|>"]}),
        ),
    ] {
        let answer = client.post(path, &body).await;
        assert_eq!(answer.json(), expected, "{path}");
    }
    let unknown = client.post("/detokenize", &json!({"tokens": [258]})).await;
    assert_eq!(unknown.status, 400);
    assert_eq!(
        unknown.json()["message"],
        "tokens contains 258, the vocabulary has 258 tokens."
    );
    let missing = client.post("/tokenize", &json!({})).await;
    let message = "prompt: field required, or messages of a conversation";
    assert_eq!(missing.json()["message"], message);
    let long = client
        .post("/tokenize", &json!({"prompt": "x".repeat(10_000)}))
        .await;
    assert_eq!(long.json()["count"], 10_000);
}

#[tokio::test]
async fn the_cache_is_flushed_only_when_idle() {
    let (gate, server) = start_gated().await;
    let client = server.client();
    gate.open_for(1);
    let body = json!({"text": "x", "stream": true, "sampling_params": {"max_new_tokens": 500}});
    let mut events = client.stream("/generate", &body).await;
    events.next().await.unwrap();
    let flushing = tokio::spawn({
        let client = server.client();
        async move { client.post("/flush_cache?timeout=0", &json!({})).await }
    });
    while !flushing.is_finished() {
        gate.open_for(1);
        tokio::task::yield_now().await;
    }
    assert_eq!(flushing.await.unwrap().status, 400);
    drop(gate);
    while events.next().await.is_some() {}
    for query in [
        "?timeout=10",
        "",
        "?timeout=0",
        "?timeout=-1",
        "?timeout=nan",
        "?timeout=inf",
    ] {
        let idle = client.get(&format!("/flush_cache{query}")).await;
        assert_eq!(idle.status, 200, "{query}");
        assert!(idle.body.starts_with("Cache flushed."), "{}", idle.body);
    }
}

#[tokio::test]
async fn requests_that_were_aborted_do_not_keep_the_cache_from_being_flushed() {
    for stream in [true, false] {
        let (gate, server) = start_gated().await;
        let client = server.client();
        gate.open_for(1);
        let body =
            json!({"text": "x", "stream": stream, "sampling_params": {"max_new_tokens": 500}});
        let asking = tokio::spawn({
            let client = client.clone();
            async move { client.post("/generate", &body).await }
        });
        while server.engine.stats().scheduler.running == 0 {
            tokio::task::yield_now().await;
        }
        // The engine is in the midst of a step and will be until the gate is open.
        let abort = client
            .post("/abort_request", &json!({"abort_all": true}))
            .await;
        assert_eq!(abort.status, 200);
        assert!(asking.await.unwrap().body.contains("abort"));
        let flush = client.get("/flush_cache");
        let (flushed, ()) = tokio::join!(flush, async { drop(gate) });
        assert_eq!(flushed.status, 200, "{}", flushed.body);
        assert_eq!(server.engine.stats().scheduler.cancelled, 1);
    }
}

#[tokio::test]
async fn a_request_can_be_aborted_by_name() {
    let (gate, server) = start_gated().await;
    gate.open_for(2);
    let body = json!({"text": "x", "rid": "request-1", "stream": true});
    let mut events = server.client().stream("/generate", &body).await;
    events.next().await.unwrap();
    let abort = server
        .client()
        .post("/abort_request", &json!({"rid": "request-1"}))
        .await;
    assert_eq!(abort.status, 200);
    drop(gate);
    let mut last = Value::Null;
    while let Some(data) = events.next().await {
        if data != "[DONE]" {
            last = serde_json::from_str(&data).unwrap();
        }
    }
    let reason = &last["meta_info"]["finish_reason"];
    assert_eq!(reason["type"], "abort");
    let nobody = server.client().post("/abort_request", &json!({})).await;
    assert_eq!(nobody.status, 400);
    let all = server
        .client()
        .post("/abort_request", &json!({"abort_all": true}))
        .await;
    assert_eq!(all.status, 200);
}

#[tokio::test]
async fn metrics_follow_requests() {
    let server = start().await;
    let body = json!({"text": "say:hi\n"});
    server.client().post("/generate", &body).await;
    let uncounted = json!({"text": ["say:hi\n", "say:you\n"], "log_metrics": false});
    let answer = server.client().post("/generate", &uncounted).await;
    assert_eq!(answer.status, 200);
    let text = server.client().get("/metrics").await.body;
    let labels = r#"{model_name="org/tiny",engine_type="unified",tp_rank="0",pp_rank="0"}"#;
    for line in [
        format!("sglang:prompt_tokens_total{labels} 7.0"),
        format!("sglang:generation_tokens_total{labels} 3.0"),
        format!("sglang:num_requests_total{labels} 1.0"),
        format!("sglang:time_to_first_token_seconds_count{labels} 1.0"),
        format!("sglang:e2e_request_latency_seconds_count{labels} 1.0"),
        format!("sglang:max_total_num_tokens{labels} 4096.0"),
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line} is not in\n{text}"
        );
    }
    let off = Setup::with(|setup| setup.server.metrics = false)
        .start()
        .await;
    assert_eq!(off.client().get("/metrics").await.status, 404);
}

#[tokio::test]
async fn the_load_is_told_in_two_ways() {
    let server = start().await;
    let load = server.client().get("/get_load").await.json();
    assert_eq!(
        load,
        json!([{"dp_rank": 0, "num_reqs": 0, "num_waiting_reqs": 0, "num_tokens": 0}])
    );
    let loads = server.client().get("/v1/loads").await.json();
    expect![[r#"
        {
          "timestamp": "<timestamp>",
          "version": "0.1.0",
          "num_accelerators": 1,
          "loads": [
            {
              "dp_rank": 0,
              "num_running_reqs": 0,
              "num_waiting_reqs": 0,
              "num_used_tokens": 0,
              "max_total_num_tokens": 4096,
              "token_usage": 0.0,
              "gen_throughput": 0.0,
              "cache_hit_rate": 0.0,
              "utilization": 0.0,
              "max_running_requests": 16
            }
          ]
        }"#]]
    .assert_eq(&masked(loads));
    let text = server
        .client()
        .get("/v1/loads?format=prometheus")
        .await
        .body;
    assert!(
        text.contains("sglang_num_running_reqs{dp_rank=\"0\"} 0.0"),
        "{text}"
    );
}

#[tokio::test]
async fn what_has_no_effect_is_accepted() {
    let server = start().await;
    assert_eq!(server.client().get("/freeze_gc").await.status, 200);
}

#[tokio::test]
async fn a_query_that_cannot_be_read_is_told_as_other_mistakes_are() {
    let server = start().await;
    let refused = server.client().get("/flush_cache?timeout=soon").await;
    assert_eq!(refused.status, 400);
    let message = "the query cannot be read: timeout: invalid float literal";
    assert_eq!(refused.json(), json!({"error": {"message": message}}));
}

#[tokio::test]
async fn texts_can_be_parsed_alone() {
    let server = start().await;
    let body = json!({"text": "a<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
                      "tool_call_parser": "qwen25", "tools": []});
    let answer = server
        .client()
        .post("/parse_function_call", &body)
        .await
        .json();
    let calls = json!([{"tool_index": 0, "name": "f", "parameters": "{}"}]);
    assert_eq!(answer, json!({"normal_text": "a", "calls": calls}));
    let body = json!({"text": "<think>a</think>b", "reasoning_parser": "qwen3"});
    let answer = server
        .client()
        .post("/separate_reasoning", &body)
        .await
        .json();
    assert_eq!(answer, json!({"reasoning_text": "a", "text": "b"}));
    let body = json!({"text": "a", "reasoning_parser": "qwen9"});
    let unknown = server.client().post("/separate_reasoning", &body).await;
    assert_eq!(unknown.status, 400);
    assert!(unknown.body.contains("qwen9"), "{}", unknown.body);
}
