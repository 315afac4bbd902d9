//! What FastAPI and pydantic let pass, and so do we.

use hyper::Method;
use serde_json::json;

use crate::harness::{Setup, answer, masked, start};

#[tokio::test]
async fn values_of_another_type_are_taken_where_pydantic_takes_them() {
    let server = Setup::with(|setup| setup.server.metrics = false)
        .start()
        .await;
    let client = server.client();
    let messages = json!([{"role": "user", "content": "a"}]);
    let cases = [
        (
            "/v1/completions",
            json!({"prompt": "ab", "max_tokens": 3, "temperature": 0.0, "echo": true, "logprobs": 1,
                   "stop_token_ids": [1, 2], "logit_bias": {"5": 1.0}, "ignore_eos": true}),
            json!({"prompt": "ab", "max_tokens": "3", "temperature": "0.0", "echo": "on", "logprobs": true,
                   "stop_token_ids": ["1", 2.0], "logit_bias": {"5": "1"}, "ignore_eos": 1}),
        ),
        (
            "/v1/completions",
            json!({"prompt": [[97, 98], [99]], "max_tokens": 1, "temperature": 0}),
            json!({"prompt": [[97, "98"], ["99"]], "max_tokens": 1.0, "temperature": false}),
        ),
        (
            "/v1/completions",
            json!({"prompt": ["1", "2"], "max_tokens": 1, "temperature": 0}),
            json!({"prompt": ["1", "2"], "max_tokens": " 1 ", "temperature": "0e0"}),
        ),
        (
            "/v1/chat/completions",
            json!({"messages": messages, "max_completion_tokens": 2, "temperature": 0, "stream": false,
                   "logprobs": true, "top_logprobs": 1, "n": 1}),
            json!({"messages": messages, "max_completion_tokens": "2", "temperature": "0", "stream": "No",
                   "logprobs": "yes", "top_logprobs": "1", "n": true}),
        ),
        (
            "/generate",
            json!({"input_ids": [97, 98], "return_logprob": true, "logprob_start_len": 0, "stream": false,
                   "top_logprobs_num": 1, "sampling_params": {"max_new_tokens": 2, "temperature": 0}}),
            json!({"input_ids": ["97", 98], "return_logprob": "t", "logprob_start_len": "0", "stream": "0",
                   "top_logprobs_num": 1.0, "sampling_params": {"max_new_tokens": 2.0, "temperature": 0}}),
        ),
        (
            "/generate",
            json!({"text": ["a", "b"], "return_logprob": [true, false],
                   "sampling_params": {"max_new_tokens": 1, "temperature": 0}}),
            json!({"text": ["a", "b"], "return_logprob": [1, 0],
                   "sampling_params": {"max_new_tokens": 1, "temperature": 0}}),
        ),
        (
            "/detokenize",
            json!({"tokens": [97, 98], "skip_special_tokens": true}),
            json!({"tokens": ["97", 98.0], "skip_special_tokens": "true"}),
        ),
    ];
    for (path, own, other) in cases {
        // The first fills the cache, which answers tell of.
        client.post(path, &own).await;
        let [own, other] = [
            client.post(path, &own).await,
            client.post(path, &other).await,
        ];
        assert_eq!(
            (own.status, other.status),
            (200, 200),
            "{path} {}",
            other.body
        );
        assert_eq!(masked(own.json()), masked(other.json()), "{path}");
    }
}

#[tokio::test]
async fn a_slash_too_many_leads_to_the_path_without_it() {
    let server = start().await;
    for (method, path, expected) in [
        (Method::POST, "/generate/", Some("/generate")),
        (Method::PUT, "/generate//", Some("/generate")),
        (
            Method::GET,
            "/generate/?a=1&b=%2F",
            Some("/generate?a=1&b=%2F"),
        ),
        (
            Method::POST,
            "/v1/chat/completions/",
            Some("/v1/chat/completions"),
        ),
        (Method::GET, "/v1/models/", Some("/v1/models")),
        (Method::GET, "/health/", Some("/health")),
        (Method::GET, "/openapi.json/", Some("/openapi.json")),
        (Method::POST, "//generate/", None),
        (Method::GET, "//page/", None),
        (Method::GET, "/nowhere/", None),
        (Method::GET, "/", None),
    ] {
        let client = server.client();
        let response = client.send(method, path, None, "{}").await;
        let location = response.headers().get("location").cloned();
        let location = location.as_ref().map(|value| value.to_str().expect("text"));
        assert_eq!(location, expected, "{path}");
        let status = if expected.is_some() { 307 } else { 404 };
        assert_eq!(answer(response).await.status, status, "{path}");
    }
}
