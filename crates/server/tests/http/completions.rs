//! `/v1/completions`

use expect_test::expect;
use serde_json::{Value, json};

use crate::harness::{Setup, masked, start};

const PATH: &str = "/v1/completions";

#[tokio::test]
async fn an_answer_in_openai_form() {
    let server = start().await;
    let body = json!({"model": "any", "prompt": "say:hi\n"});
    let answer = server.client().post(PATH, &body).await;
    assert_eq!(answer.status, 200);
    expect![[r#"
        {
          "id": "<id>",
          "object": "text_completion",
          "created": "<created>",
          "model": "any",
          "choices": [
            {
              "index": 0,
              "text": "hi",
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
async fn a_stream_of_pieces() {
    let server = start().await;
    let body = json!({"prompt": "say:h\n", "stream": true,
                      "stream_options": {"include_usage": true}});
    let events = server.client().stream_all(PATH, &body).await;
    let text: String = events
        .iter()
        .filter_map(|event| event["choices"][0]["text"].as_str())
        .collect();
    assert_eq!(text, "h");
    let (usage, rest) = events.split_last().unwrap();
    assert_eq!(rest.last().unwrap()["choices"][0]["finish_reason"], "stop");
    assert!(rest.iter().all(|event| event["usage"].is_null()));
    expect![[r#"
        {
          "id": "<id>",
          "object": "text_completion",
          "created": "<created>",
          "model": "default",
          "choices": [],
          "usage": {
            "prompt_tokens": 6,
            "total_tokens": 8,
            "completion_tokens": 2,
            "reasoning_tokens": 0
          }
        }"#]]
    .assert_eq(&masked(usage.clone()));
}

#[tokio::test]
async fn sixteen_tokens_unless_more_are_asked_for() {
    let server = start().await;
    let answer = server
        .client()
        .post(PATH, &json!({"prompt": "a"}))
        .await
        .json();
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
    assert_eq!(answer["usage"]["completion_tokens"], 16);
}

#[tokio::test]
async fn counts_in_every_piece_when_asked_for() {
    let server = start().await;
    let body = json!({"prompt": "a", "max_tokens": 3, "stream": true, "stream_options":
                      {"include_usage": true, "continuous_usage_stats": true}});
    let events = server.client().stream_all(PATH, &body).await;
    assert!(
        events
            .iter()
            .all(|event| event["usage"]["prompt_tokens"] == 1)
    );
    assert_eq!(events.last().unwrap()["usage"]["completion_tokens"], 3);
}

#[tokio::test]
async fn several_prompts_and_choices() {
    let server = start().await;
    let body = json!({"prompt": ["say:a\n", "say:b\n"], "n": 2});
    let answer = server.client().post(PATH, &body).await.json();
    let choices: Vec<Value> = answer["choices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|choice| json!([choice["index"], choice["text"]]))
        .collect();
    assert_eq!(
        Value::from(choices),
        json!([[0, "a"], [1, "a"], [2, "b"], [3, "b"]])
    );
    assert_eq!(answer["usage"]["prompt_tokens"], 12);
    assert_eq!(answer["usage"]["completion_tokens"], 8);
    let tokens = json!({"prompt": [[97], [98, 99]], "max_tokens": 1});
    let answer = server.client().post(PATH, &tokens).await.json();
    assert_eq!(answer["choices"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn log_probabilities_with_the_prompt_repeated() {
    let server = start().await;
    let body = json!({"prompt": "say:é\n", "logprobs": 1, "echo": true});
    let answer = server.client().post(PATH, &body).await.json();
    let choice = &answer["choices"][0];
    assert_eq!(choice["text"], "say:é\né");
    expect![[r#"{"text_offset":[0,1,2,3,4,5,5,6,7,7],"token_logprobs":[null,-1.0,-1.0,-1.0,-1.0,-1.0,-1.0,-1.0,-1.0,-1.0],"tokens":["s","a","y",":","�","�","\n","�","�","<|end|>"],"top_logprobs":[null,{"a":-1.0},{"y":-1.0},{":":-1.0},{"�":-1.0},{"�":-1.0},{"\n":-1.0},{"�":-1.0},{"�":-1.0},{"<|end|>":-1.0}]}"#]].assert_eq(&choice["logprobs"].to_string());

    let mut stream = body.clone();
    stream["stream"] = json!(true);
    let events = server.client().stream_all(PATH, &stream).await;
    let joined = |name: &str| -> Vec<Value> {
        let lists = events
            .iter()
            .filter_map(|event| event["choices"][0]["logprobs"][name].as_array());
        lists.flatten().cloned().collect()
    };
    for name in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        assert_eq!(
            Value::from(joined(name)),
            choice["logprobs"][name],
            "{name}"
        );
    }
    let text: String = events
        .iter()
        .map(|event| event["choices"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(text, "say:é\né");
}

#[tokio::test]
async fn cached_tokens_are_reported_when_the_server_does_that() {
    let server = Setup::with(|setup| setup.server.cache_report = true)
        .start()
        .await;
    let body = json!({"prompt": "a prompt that comes twice", "max_tokens": 1});
    let first = server.client().post(PATH, &body).await.json();
    assert_eq!(first["usage"]["prompt_tokens_details"], Value::Null);
    let second = server.client().post(PATH, &body).await.json();
    assert_eq!(
        second["usage"]["prompt_tokens_details"],
        json!({"cached_tokens": 24})
    );
}

#[tokio::test]
async fn what_ended_an_output_is_said() {
    let server = start().await;
    let body = json!({"prompt": "say:one two\n", "stop": [" tw"]});
    let choice = server.client().post(PATH, &body).await.json()["choices"][0].clone();
    assert_eq!(
        (&choice["text"], &choice["matched_stop"]),
        (&json!("one"), &json!(" tw"))
    );
    let body = json!({"prompt": "say:one two\n", "stop": [" tw"], "stream": true});
    let events = server.client().stream_all(PATH, &body).await;
    assert_eq!(events.last().unwrap()["choices"][0]["matched_stop"], " tw");
}
