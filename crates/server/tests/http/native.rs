//! `/generate`

use expect_test::expect;
use serde_json::{Value, json};
use server::NativeStream;

use crate::harness::{Setup, masked, start};

#[tokio::test]
async fn an_answer_has_text_tokens_and_facts() {
    let server = Setup::with(|setup| setup.server.metrics = false)
        .start()
        .await;
    let body = json!({"text": "say:hi\n", "sampling_params": {"temperature": 0}});
    let answer = server.client().post("/generate", &body).await;
    assert_eq!(answer.status, 200);
    expect![[r#"
        {
          "text": "hi",
          "output_ids": [
            104,
            105,
            256
          ],
          "meta_info": {
            "id": "<id>",
            "finish_reason": {
              "type": "stop",
              "matched": 256
            },
            "prompt_tokens": 7,
            "weight_version": "default",
            "total_retractions": 0,
            "completion_tokens": 3,
            "cached_tokens": 0,
            "e2e_latency": "<e2e_latency>",
            "response_sent_to_client_ts": "<response_sent_to_client_ts>"
          }
        }"#]]
    .assert_eq(&masked(answer.json()));
}

#[tokio::test]
async fn with_metrics_an_answer_tells_when_things_happened() {
    let server = start().await;
    let body = json!({"input_ids": [97, 98], "sampling_params": {"max_new_tokens": 1}});
    let answer = server.client().post("/generate", &body).await;
    expect![[r#"
        {
          "text": "c",
          "output_ids": [
            99
          ],
          "meta_info": {
            "id": "<id>",
            "finish_reason": {
              "type": "length",
              "length": 1
            },
            "prompt_tokens": 2,
            "weight_version": "default",
            "total_retractions": 0,
            "completion_tokens": 1,
            "cached_tokens": 0,
            "e2e_latency": "<e2e_latency>",
            "response_sent_to_client_ts": "<response_sent_to_client_ts>",
            "queue_time": "<queue_time>",
            "request_received_ts": "<request_received_ts>",
            "request_sent_to_scheduler_ts": "<request_sent_to_scheduler_ts>",
            "prefill_finished_ts": "<prefill_finished_ts>",
            "decode_finished_ts": "<decode_finished_ts>",
            "inference_time": "<inference_time>"
          }
        }"#]]
    .assert_eq(&masked(answer.json()));
}

#[tokio::test]
async fn a_stream_repeats_the_output_in_every_event() {
    let server = start().await;
    let body = json!({"text": "say:hi\n", "stream": true, "rid": "mine"});
    let events = server.client().stream_all("/generate", &body).await;
    let (last, earlier) = events.split_last().unwrap();
    assert_eq!(last["text"], "hi");
    assert_eq!(last["meta_info"]["id"], "mine");
    assert_eq!(
        last["meta_info"]["finish_reason"],
        json!({"type": "stop", "matched": 256})
    );
    assert_eq!(last["output_ids"], json!([104, 105, 256]));
    for event in earlier {
        assert_eq!(event["meta_info"]["finish_reason"], Value::Null);
        assert!("hi".starts_with(event["text"].as_str().unwrap()));
        let ids = event["output_ids"].as_array().unwrap();
        assert_eq!(event["meta_info"]["completion_tokens"], ids.len());
        assert!(event.get("index").is_none());
    }
}

/// The text and tokens of all events, joined.
async fn joined(mode: NativeStream) -> (String, Vec<Value>) {
    let server = Setup::with(|setup| setup.server.native_stream = mode)
        .start()
        .await;
    let body = json!({"text": "say:hello\n", "stream": true});
    let events = server.client().stream_all("/generate", &body).await;
    let text = events
        .iter()
        .map(|event| event["text"].as_str().expect("text is text"))
        .collect();
    let ids = events
        .iter()
        .flat_map(|event| event["output_ids"].as_array().cloned().unwrap_or_default());
    (text, ids.collect())
}

#[tokio::test]
async fn deltas_joined_are_the_output() {
    let tokens = [104, 101, 108, 108, 111, 256].map(Value::from);
    let (text, ids) = joined(NativeStream::Incremental).await;
    assert_eq!((text.as_str(), &ids[..]), ("hello", &tokens[..]));
    let (text, ids) = joined(NativeStream::NewTokens).await;
    assert!(text.ends_with("hello"));
    assert_eq!(ids, tokens);
}

#[tokio::test]
async fn the_interval_holds_tokens_back_but_not_the_first_and_the_last() {
    let server = start().await;
    let body = json!({"text": "x", "stream": true,
                      "sampling_params": {"max_new_tokens": 10, "stream_interval": 4}});
    let events = server.client().stream_all("/generate", &body).await;
    let counts: Vec<u64> = events
        .iter()
        .map(|event| event["meta_info"]["completion_tokens"].as_u64().unwrap())
        .collect();
    assert!(
        counts
            .windows(2)
            .all(|pair| pair[1] - pair[0] >= 4 || pair[1] == 10),
        "{counts:?}"
    );
    assert_eq!(counts.last(), Some(&10));
}

#[tokio::test]
async fn a_batch_is_answered_in_order() {
    let server = start().await;
    let body = json!({"text": ["say:one\n", "say:two\n", "say:three\n"],
                      "sampling_params": [{}, {"max_new_tokens": 2}, {"stop": "re"}],
                      "rid": ["a", "b", "c"]});
    let answer = server.client().post("/generate", &body).await.json();
    let facts: Vec<Value> = answer
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            json!([
                one["meta_info"]["id"],
                one["text"],
                one["meta_info"]["finish_reason"]
            ])
        })
        .collect();
    expect![[r#"[["a","one",{"type":"stop","matched":256}],["b","tw",{"type":"length","length":2}],["c","th",{"type":"stop","matched":"re"}]]"#]].assert_eq(&Value::from(facts).to_string());
}

#[tokio::test]
async fn a_batch_in_a_stream_is_numbered() {
    let server = start().await;
    let body = json!({"input_ids": [[97], [98]], "stream": true,
                      "sampling_params": {"max_new_tokens": 3, "n": 2}});
    let events = server.client().stream_all("/generate", &body).await;
    let mut ended: Vec<u64> = events
        .iter()
        .filter(|event| !event["meta_info"]["finish_reason"].is_null())
        .map(|event| event["index"].as_u64().unwrap())
        .collect();
    ended.sort_unstable();
    assert_eq!(ended, [0, 1, 2, 3]);
}

#[tokio::test]
async fn choices_of_one_prompt_are_a_list() {
    let server = start().await;
    let body = json!({"text": "say:yes\n", "rid": "r", "sampling_params": {"n": 3}});
    let answer = server.client().post("/generate", &body).await.json();
    let choices = answer.as_array().unwrap().iter();
    let ids: Vec<&Value> = choices.map(|one| &one["meta_info"]["id"]).collect();
    assert_eq!(ids, ["r_0", "r_1", "r_2"]);
    let texts: Vec<&str> = answer
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["yes"; 3]);
    let one = json!({"text": ["say:yes\n"]});
    assert!(
        server
            .client()
            .post("/generate", &one)
            .await
            .json()
            .is_array()
    );
}

#[tokio::test]
async fn characters_are_never_cut() {
    let server = start().await;
    let body = json!({"text": "say:é😀ü\n", "stream": true});
    let events = server.client().stream_all("/generate", &body).await;
    for event in &events {
        let text = event["text"].as_str().unwrap();
        assert!("é😀ü".starts_with(text), "{text}");
    }
    assert_eq!(events.last().unwrap()["text"], "é😀ü");
    assert_eq!(events.last().unwrap()["meta_info"]["completion_tokens"], 9);
    let cut = json!({"text": "say:é😀ü\n", "sampling_params": {"max_new_tokens": 4}});
    assert_eq!(
        server.client().post("/generate", &cut).await.json()["text"],
        "é\u{fffd}"
    );
}

#[tokio::test]
async fn an_output_that_is_complete_with_the_last_token_allowed_was_not_cut_short() {
    let server = start().await;
    // What ends it, after how many tokens, with which text, and the text of one token less.
    for (params, tokens, matched, text, cut) in [
        (json!({}), 5, json!(256), "stop", "stop"),
        (json!({"stop_token_ids": [111]}), 3, json!(111), "st", "st"),
        (json!({"stop": "to"}), 3, json!("to"), "s", "st"),
        (
            json!({"stop_regex": "[n-p]"}),
            3,
            json!("[n-p]"),
            "sto",
            "st",
        ),
        (json!({"stop_regex": "to"}), 3, json!("to"), "s", "st"),
    ] {
        let stop = json!({"type": "stop", "matched": matched});
        let length = json!({"type": "length", "length": tokens - 1});
        for (most, text, reason) in [(tokens, text, stop), (tokens - 1, cut, length)] {
            let mut params = params.clone();
            params["max_new_tokens"] = json!(most);
            let body = json!({"text": "say:stop\n", "sampling_params": params});
            let answer = server.client().post("/generate", &body).await.json();
            assert_eq!(answer["text"], text, "{params}");
            assert_eq!(answer["meta_info"]["finish_reason"], reason, "{params}");
        }
    }
}

#[tokio::test]
async fn stop_strings_end_the_output_wherever_they_lie() {
    let server = start().await;
    let cases = [
        (json!({"stop": "END"}), "stop here ", json!("END"), 13),
        (
            json!({"stop": ["xyz", "e E"]}),
            "stop her",
            json!("e E"),
            11,
        ),
        (
            json!({"stop": "END", "no_stop_trim": true}),
            "stop here END",
            json!("END"),
            13,
        ),
        (
            json!({"stop": "nothing"}),
            "stop here END no more",
            json!(256),
            22,
        ),
        (json!({"stop_token_ids": [69]}), "stop here ", json!(69), 11),
        (
            json!({"stop_token_ids": [69], "no_stop_trim": true}),
            "stop here E",
            json!(69),
            11,
        ),
        (json!({"stop": ""}), "stop here END no more", json!(256), 22),
        (
            json!({"stop": "more and"}),
            "stop here END no more",
            json!(256),
            22,
        ),
    ];
    for (params, text, matched, tokens) in cases {
        for stream in [false, true] {
            let body = json!({"text": "say:stop here END no more\n", "stream": stream,
                              "sampling_params": params});
            let answer = if stream {
                let events = server.client().stream_all("/generate", &body).await;
                for event in &events {
                    let said = event["text"].as_str().unwrap();
                    assert!(text.starts_with(said), "{said} was taken back to {text}");
                }
                events.last().unwrap().clone()
            } else {
                server.client().post("/generate", &body).await.json()
            };
            assert_eq!(answer["text"], text, "{params}");
            let reason = &answer["meta_info"]["finish_reason"];
            assert_eq!(
                *reason,
                json!({"type": "stop", "matched": matched}),
                "{params}"
            );
            assert_eq!(answer["meta_info"]["completion_tokens"], tokens, "{params}");
            assert_eq!(answer["output_ids"].as_array().unwrap().len(), tokens);
        }
    }
}

#[tokio::test]
async fn special_tokens_are_left_out_unless_wanted() {
    let server = start().await;
    let prompt = "say:a<|mark|>b\n";
    let plain = server
        .client()
        .post("/generate", &json!({"text": prompt}))
        .await;
    assert_eq!(plain.json()["text"], "ab");
    let body = json!({"text": prompt, "sampling_params":
                      {"skip_special_tokens": false, "no_stop_trim": true}});
    let whole = server.client().post("/generate", &body).await;
    assert_eq!(whole.json()["text"], "a<|mark|>b<|end|>");
}

#[tokio::test]
async fn log_probabilities_of_prompt_and_output() {
    let server = start().await;
    let body = json!({"text": "say:é\n", "return_logprob": true, "logprob_start_len": 4,
                      "top_logprobs_num": 1, "return_text_in_logprobs": true});
    let answer = server.client().post("/generate", &body).await.json();
    let mut lists = answer["meta_info"].clone();
    lists
        .as_object_mut()
        .unwrap()
        .retain(|name, _| name.contains("logprobs"));
    expect![[r#"{"input_token_logprobs":[[null,195,"�"],[-1.0,169,"�"],[-1.0,10,"\n"]],"output_token_logprobs":[[-1.0,195,"�"],[-1.0,169,"�"],[-1.0,256,"<|end|>"]],"input_top_logprobs":[null,[[-1.0,169,"�"]],[[-1.0,10,"\n"]]],"output_top_logprobs":[[[-1.0,195,"�"]],[[-1.0,169,"�"]],[[-1.0,256,"<|end|>"]]]}"#]].assert_eq(&lists.to_string());

    let stream = json!({"text": "say:é\n", "return_logprob": true, "logprob_start_len": 4,
                        "top_logprobs_num": 1, "return_text_in_logprobs": true, "stream": true});
    let events = server.client().stream_all("/generate", &stream).await;
    let mut last = events.last().unwrap()["meta_info"].clone();
    last.as_object_mut()
        .unwrap()
        .retain(|name, _| name.contains("logprobs"));
    assert_eq!(last, lists);
}

#[tokio::test]
async fn log_probabilities_of_outputs_only_by_default() {
    let server = start().await;
    let body = json!({"input_ids": [97], "return_logprob": true,
                      "sampling_params": {"max_new_tokens": 2}});
    let meta = server.client().post("/generate", &body).await.json()["meta_info"].clone();
    assert_eq!(meta["input_token_logprobs"], json!([]));
    assert_eq!(
        meta["output_token_logprobs"],
        json!([[-1.0, 98, null], [-1.0, 99, null]])
    );
    assert!(meta.get("output_top_logprobs").is_none());
}

#[tokio::test]
async fn prompts_found_in_the_cache_are_counted() {
    let server = start().await;
    let body = json!({"text": "a prompt that comes twice", "sampling_params":
                      {"max_new_tokens": 1}});
    let first = server.client().post("/generate", &body).await.json();
    assert_eq!(first["meta_info"]["cached_tokens"], 0);
    let second = server.client().post("/generate", &body).await.json();
    assert_eq!(second["meta_info"]["cached_tokens"], 24);
    let mut apart = body.clone();
    apart["extra_key"] = json!("mine");
    let third = server.client().post("/generate", &apart).await.json();
    assert_eq!(third["meta_info"]["cached_tokens"], 0);
}

#[tokio::test]
async fn without_a_tokenizer_tokens_go_in_and_out() {
    let server = Setup::with(|setup| setup.text = None).start().await;
    let body = json!({"input_ids": [97, 98], "sampling_params": {"max_new_tokens": 2}});
    let answer = server.client().post("/generate", &body).await.json();
    assert!(answer.get("text").is_none());
    assert_eq!(answer["output_ids"], json!([99, 100]));
    let mut stream = body.clone();
    stream["stream"] = json!(true);
    let events = server.client().stream_all("/generate", &stream).await;
    assert_eq!(events.last().unwrap()["output_ids"], json!([99, 100]));
    let text = server
        .client()
        .post("/generate", &json!({"text": "a"}))
        .await;
    assert_eq!(text.status, 400);
    assert!(text.body.contains("--skip-tokenizer-init"), "{}", text.body);
    for name in ["stop", "stop_regex"] {
        let mut stopped = body.clone();
        stopped["sampling_params"][name] = json!("a");
        let answer = server.client().post("/generate", &stopped).await;
        assert_eq!(answer.status, 400);
        assert!(answer.body.contains("no text"), "{}", answer.body);
    }
}

#[tokio::test]
async fn a_large_body_is_read() {
    let server = Setup::with(|setup| setup.server.auto_truncate = true)
        .start()
        .await;
    let body = json!({"text": "x".repeat(3 << 20), "sampling_params": {"max_new_tokens": 4096}});
    let answer = server.client().post("/generate", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.json()["meta_info"]["prompt_tokens"], 510);
}

#[tokio::test]
async fn what_the_operator_prefers_is_used_when_nothing_is_said() {
    let preferred = json!({"max_new_tokens": 3});
    let server = Setup::with(|setup| {
        setup.server.model.preferred_sampling_params = Some(preferred);
    });
    let server = server.start().await;
    let answer = server
        .client()
        .post("/generate", &json!({"text": "a"}))
        .await
        .json();
    assert_eq!(answer["meta_info"]["completion_tokens"], 3);
}

#[tokio::test]
async fn no_limit_of_tokens_is_the_rest_of_the_context_and_saying_nothing_is_128() {
    let server = start().await;
    for (params, tokens) in [
        (json!({}), 128),
        (json!({"max_new_tokens": null}), 510),
        (json!({"max_new_tokens": 3}), 3),
    ] {
        let body = json!({"text": "x", "sampling_params": params});
        let answer = server.client().post("/generate", &body).await.json();
        let reason = &answer["meta_info"]["finish_reason"];
        let expected = json!({"type": "length", "length": tokens});
        assert_eq!(reason, &expected, "{body}");
    }
}
