//! `/v1/chat/completions`

use expect_test::expect;
use serde_json::{Value, json};

use crate::harness::{Setup, masked, start, start_gated};

const PATH: &str = "/v1/chat/completions";

fn say(text: &str) -> Value {
    json!([{"role": "user", "content": format!("say:{text}")}])
}

#[tokio::test]
async fn an_answer_in_openai_form() {
    let server = start().await;
    let body = json!({"model": "any", "messages": say("hi"), "seed": 3});
    let answer = server.client().post(PATH, &body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    expect![[r#"
        {
          "id": "<id>",
          "object": "chat.completion",
          "created": "<created>",
          "model": "any",
          "choices": [
            {
              "index": 0,
              "message": {
                "role": "assistant",
                "content": "hi",
                "reasoning_content": null,
                "tool_calls": null
              },
              "logprobs": null,
              "finish_reason": "stop",
              "matched_stop": 256
            }
          ],
          "usage": {
            "prompt_tokens": 7,
            "total_tokens": 10,
            "completion_tokens": 3,
            "prompt_tokens_details": null,
            "reasoning_tokens": 0
          },
          "metadata": {
            "weight_version": "default"
          }
        }"#]]
    .assert_eq(&masked(answer.json()));
}

#[tokio::test]
async fn a_stream_greets_speaks_and_ends() {
    let server = start().await;
    let body = json!({"messages": say("hi"), "stream": true,
                      "stream_options": {"include_usage": true}});
    let events = server.client().stream_all(PATH, &body).await;
    expect![[r#"
        [
          {
            "index": 0,
            "delta": {
              "role": "assistant",
              "content": "",
              "reasoning_content": null,
              "tool_calls": null
            },
            "logprobs": null,
            "finish_reason": null,
            "matched_stop": null
          }
        ]"#]]
    .assert_eq(&masked(events[0]["choices"].clone()));
    let text: String = events
        .iter()
        .filter_map(|event| event["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(text, "hi");
    let [.., end, usage] = &events[..] else {
        panic!("{events:?}")
    };
    expect![[r#"
        {
          "id": "<id>",
          "object": "chat.completion.chunk",
          "created": "<created>",
          "model": "default",
          "choices": [
            {
              "index": 0,
              "delta": {
                "role": null,
                "content": null,
                "reasoning_content": null,
                "tool_calls": null
              },
              "logprobs": null,
              "finish_reason": "stop",
              "matched_stop": 256
            }
          ],
          "usage": null
        }"#]]
    .assert_eq(&masked(end.clone()));
    expect![[r#"
        {
          "id": "<id>",
          "object": "chat.completion.chunk",
          "created": "<created>",
          "model": "default",
          "choices": [],
          "usage": {
            "prompt_tokens": 7,
            "total_tokens": 10,
            "completion_tokens": 3,
            "prompt_tokens_details": null,
            "reasoning_tokens": 0
          }
        }"#]]
    .assert_eq(&masked(usage.clone()));
}

#[tokio::test]
async fn every_choice_greets_and_ends() {
    let server = start().await;
    let body = json!({"messages": say("hi"), "stream": true, "n": 2});
    let events = server.client().stream_all(PATH, &body).await;
    for index in [0, 1] {
        let mine: Vec<&Value> = events
            .iter()
            .map(|event| &event["choices"][0])
            .filter(|choice| choice["index"] == index)
            .collect();
        assert_eq!(mine[0]["delta"]["role"], "assistant");
        assert_eq!(mine.last().unwrap()["finish_reason"], "stop");
    }
}

#[tokio::test]
async fn log_probabilities_have_bytes() {
    let server = start().await;
    let body = json!({"messages": say("é"), "logprobs": true, "top_logprobs": 1});
    let answer = server.client().post(PATH, &body).await.json();
    let log_probs = &answer["choices"][0]["logprobs"];
    expect![[r#"{"content":[{"token":"�","bytes":[195],"logprob":-1.0,"top_logprobs":[{"token":"�","bytes":[195],"logprob":-1.0}]},{"token":"�","bytes":[169],"logprob":-1.0,"top_logprobs":[{"token":"�","bytes":[169],"logprob":-1.0}]},{"token":"<|end|>","bytes":[60,124,101,110,100,124,62],"logprob":-1.0,"top_logprobs":[{"token":"<|end|>","bytes":[60,124,101,110,100,124,62],"logprob":-1.0}]}]}"#]].assert_eq(&log_probs.to_string());
    let mut stream = body.clone();
    stream["stream"] = json!(true);
    let events = server.client().stream_all(PATH, &stream).await;
    let lists = events.iter().filter_map(|event| {
        event["choices"][0]["logprobs"]["content"]
            .as_array()
            .cloned()
    });
    let joined: Vec<Value> = lists.flatten().collect();
    assert_eq!(Value::from(joined), log_probs["content"]);
}

#[tokio::test]
async fn every_piece_of_a_stream_with_log_probabilities_says_something_or_ends() {
    let (gate, server) = start_gated().await;
    let body = json!({"messages": say("hé"), "logprobs": true, "stream": true});
    let mut stream = server.client().stream(PATH, &body).await;
    let mut events: Vec<Value> = Vec::new();
    // A greeting and a letter; then a character of two tokens, the first of which says nothing; then the end.
    for (tokens, pieces) in [(1, 2), (2, 1), (1, 1)] {
        gate.open_for(tokens);
        for _ in 0..pieces {
            let event = stream.next().await.expect("an event");
            events.push(serde_json::from_str(&event).expect("JSON"));
        }
    }
    drop(gate);
    let [_, pieces @ .., last] = &events[..] else {
        panic!("{events:?}")
    };
    let tokens = |event: &Value| {
        event["choices"][0]["logprobs"]["content"]
            .as_array()
            .map(Vec::len)
    };
    let said: Vec<_> = pieces
        .iter()
        .map(|event| {
            (
                event["choices"][0]["delta"]["content"].as_str(),
                tokens(event),
            )
        })
        .collect();
    assert_eq!(said, [(Some("h"), Some(1)), (Some("é"), Some(2))]);
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
    assert_eq!(
        last["choices"][0]["logprobs"]["content"][0]["token"],
        "<|end|>"
    );
}

#[tokio::test]
async fn parts_of_text_are_joined_and_the_last_message_can_be_continued() {
    let server = start().await;
    let parts = json!([{"role": "user", "content": [{"type": "text", "text": "say:part"}]}]);
    let answer = server
        .client()
        .post(PATH, &json!({"messages": parts}))
        .await
        .json();
    assert_eq!(answer["choices"][0]["message"]["content"], "part");
    let messages = json!([{"role": "user", "content": "say:continued"},
                          {"role": "assistant", "content": "con"}]);
    let body = json!({"messages": messages, "continue_final_message": true});
    let answer = server.client().post(PATH, &body).await.json();
    assert_eq!(answer["choices"][0]["message"]["content"], "tinued");
}

#[tokio::test]
async fn limits_have_two_names_and_defaults_come_from_the_model() {
    let server = start().await;
    for name in ["max_tokens", "max_completion_tokens"] {
        let answer = server
            .client()
            .post(PATH, &json!({"messages": say("hello"), name: 2}))
            .await;
        assert_eq!(
            answer.json()["choices"][0]["message"]["content"],
            "he",
            "{name}"
        );
    }
    let broken = Setup::with(|setup| setup.server.sampling_defaults.top_p = Some(2.0));
    let server = broken.start().await;
    let answer = server
        .client()
        .post(PATH, &json!({"messages": say("hello")}))
        .await;
    assert_eq!(
        answer.json()["message"],
        "top_p must be in (0, 1], got 2.0."
    );
    let body = json!({"messages": say("hello"), "top_p": 0.5});
    assert_eq!(server.client().post(PATH, &body).await.status, 200);
}

#[tokio::test]
async fn a_long_conversation_is_rendered() {
    let server = Setup::with(|setup| setup.server.auto_truncate = true)
        .start()
        .await;
    let messages = json!([{"role": "user", "content": "x".repeat(100_000)}]);
    let body = json!({"messages": messages, "max_tokens": 1});
    assert_eq!(server.client().post(PATH, &body).await.status, 200);
}

/// A server whose model thinks and calls functions.
async fn thinking() -> crate::harness::TestServer {
    let setup = Setup::with(|setup| {
        let text = setup.text.as_mut().expect("the default has text");
        text.reasoning = Some(text::ReasoningFormat::Qwen3);
        text.tools = Some(text::ToolFormat::Hermes);
    });
    setup.start().await
}

const THOUGHTS: &str = "<think>Hm.</think>Look: <tool_call>{\"name\": \"f\", \"arguments\": \
                        {\"x\": 1}}</tool_call>";

fn tools() -> Value {
    json!([{"type": "function", "function": {"name": "f", "parameters": {}}}])
}

#[tokio::test]
async fn thoughts_and_calls_are_fields_of_their_own() {
    let server = thinking().await;
    let body = json!({"messages": say(THOUGHTS), "tools": tools()});
    let answer = server.client().post(PATH, &body).await.json();
    let mut choice = answer["choices"][0].clone();
    choice["message"]["tool_calls"][0]["id"] = json!("<id>");
    expect![[r#"
        {
          "index": 0,
          "message": {
            "role": "assistant",
            "content": "Look:",
            "reasoning_content": "Hm.",
            "tool_calls": [
              {
                "id": "<id>",
                "index": 0,
                "type": "function",
                "function": {
                  "name": "f",
                  "arguments": "{\"x\": 1}"
                }
              }
            ]
          },
          "logprobs": null,
          "finish_reason": "tool_calls",
          "matched_stop": 256
        }"#]]
    .assert_eq(&masked(choice));

    // One token a byte: all before the answer, the marks too.
    let thoughts = THOUGHTS.find("Look").expect("an answer");
    assert_eq!(answer["usage"]["reasoning_tokens"], thoughts);
    let stream = json!({"messages": say(THOUGHTS), "tools": tools(), "stream": true, "n": 2,
                        "stream_options": {"include_usage": true}});
    let events = server.client().stream_all(PATH, &stream).await;
    let last = events.last().expect("a chunk with counts");
    assert_eq!(last["usage"]["reasoning_tokens"], 2 * thoughts);
    let unthinking = json!({"messages": say("Look."), "tools": tools()});
    let answer = server.client().post(PATH, &unthinking).await.json();
    assert_eq!(answer["usage"]["reasoning_tokens"], 0);

    let no_tools = json!({"messages": say(THOUGHTS), "tools": tools(), "tool_choice": "none",
                          "separate_reasoning": false});
    let answer = server.client().post(PATH, &no_tools).await.json();
    assert_eq!(answer["choices"][0]["message"]["content"], THOUGHTS);
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
}

#[tokio::test]
async fn choices_that_ask_for_no_call_need_no_tools() {
    let server = thinking().await;
    for choice in [json!(null), json!("auto"), json!("none")] {
        for tools in [json!(null), json!([])] {
            let body = json!({"messages": say("hi"), "tools": tools, "tool_choice": choice});
            let answer = server.client().post(PATH, &body).await;
            assert_eq!(answer.status, 200, "{body}: {}", answer.body);
            assert_eq!(answer.json()["choices"][0]["message"]["content"], "hi");
        }
    }
}

#[tokio::test]
async fn thoughts_and_calls_are_streamed() {
    let server = thinking().await;
    for stream_reasoning in [true, false] {
        let body = json!({"messages": say(THOUGHTS), "tools": tools(), "stream": true,
                          "stream_reasoning": stream_reasoning, "logprobs": true});
        let events = server.client().stream_all(PATH, &body).await;
        let deltas: Vec<&Value> = events
            .iter()
            .map(|event| &event["choices"][0]["delta"])
            .collect();
        let joined = |name: &str| -> String {
            deltas
                .iter()
                .filter_map(|delta| delta[name].as_str())
                .collect()
        };
        assert_eq!(
            (
                joined("reasoning_content").as_str(),
                joined("content").as_str()
            ),
            ("Hm.", "Look:")
        );
        let calls: Vec<&Value> = deltas
            .iter()
            .filter_map(|delta| delta["tool_calls"].get(0))
            .collect();
        assert_eq!(calls[0]["function"]["name"], "f");
        let arguments: String = calls
            .iter()
            .filter_map(|call| call["function"]["arguments"].as_str())
            .collect();
        assert_eq!(
            serde_json::from_str::<Value>(&arguments).unwrap(),
            json!({"x": 1})
        );
        assert_eq!(
            events.last().unwrap()["choices"][0]["finish_reason"],
            "tool_calls"
        );
        let scored: usize = events
            .iter()
            .filter_map(|event| event["choices"][0]["logprobs"]["content"].as_array())
            .map(Vec::len)
            .sum();
        assert_eq!(scored, THOUGHTS.len() + 1);
    }
}
