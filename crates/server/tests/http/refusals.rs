//! Every way to be refused.

use hyper::Method;
use serde_json::{Value, json};

use crate::harness::{Setup, start};

/// Every body is refused with its message.
async fn refused(cases: impl IntoIterator<Item = (Value, &'static str)>) {
    let server = start().await;
    for (body, message) in cases {
        let answer = server.client().post("/generate", &body).await;
        assert_eq!(answer.status, 400, "{body}");
        assert_eq!(
            answer.json(),
            json!({"error": {"message": message}}),
            "{body}"
        );
    }
}

#[tokio::test]
async fn bad_prompts_are_told_why() {
    let missing = "Either text, input_ids or input_embeds should be provided.";
    refused([
        (json!({}), missing),
        (json!({"text": null}), missing),
        (
            json!({"text": "a", "input_ids": [1]}),
            "Only one of text and input_ids should be provided.",
        ),
        (json!({"text": []}), "The batch has no requests."),
        (json!({"text": ""}), "the prompt has no tokens"),
        (json!({"input_ids": []}), "the prompt has no tokens"),
        (
            json!({"input_ids": [1, 258]}),
            "The input_ids 258 contains values greater than the vocab size (258).",
        ),
        (
            json!({"input_ids": [-1]}),
            "input_ids contains -1, which is no token.",
        ),
        (
            json!({"input_ids": vec![1; 600]}),
            "The input (600 tokens) is longer than the model's context length (512 tokens).",
        ),
        (
            json!({"text": "a".repeat(600)}),
            "The input (600 tokens) is longer than the model's context length (512 tokens).",
        ),
        // No token stands for more than eight bytes, so nobody needs to encode this.
        (
            json!({"text": "a".repeat(5000)}),
            "The input (at least 625 tokens) is longer than the model's context length (512 tokens).",
        ),
        (
            json!({"text": "a", "sampling_params": {"max_new_tokens": 511}}),
            "Requested token count exceeds the model's maximum context length of 512 tokens. You \
             requested a total of 512 tokens: 1 tokens from the input messages and 511 tokens for \
             the completion. Please reduce the number of tokens in the input messages or the \
             completion to fit within the limit.",
        ),
    ])
    .await;
}

#[tokio::test]
async fn bad_sampling_parameters_are_told_why() {
    let cases = [
        (
            json!({"temperature": -1}),
            "temperature must be non-negative, got -1.0.",
        ),
        (json!({"top_p": 0}), "top_p must be in (0, 1], got 0.0."),
        (
            json!({"top_k": 0}),
            "top_k must be -1 (disable) or at least 1, got 0.",
        ),
        (json!({"min_p": 2}), "min_p must be in [0, 1], got 2.0."),
        (json!({"n": 0}), "n must be in [1, 4096], got 0."),
        (json!({"n": 1e9}), "n must be in [1, 4096], got 1000000000."),
        (
            json!({"logit_bias": {"300": 1}}),
            "logit_bias must has keys in [0, 257], got 300.",
        ),
        (
            json!({"regex": "a*"}),
            "regex is not supported by this server: outputs are not held to a form yet; \
             describe the form in the prompt and check the output, or leave it out.",
        ),
        (
            json!({"json_schema": "{}"}),
            "json_schema is not supported by this server: outputs are not held to a form yet; \
             describe the form in the prompt and check the output, or leave it out.",
        ),
        (
            json!({"stop_regex": ["a", "(b"]}),
            "stop_regex \"(b\" cannot be used: unclosed group",
        ),
        (
            json!({"stop_regex": vec!["a"; 33]}),
            "at most 32 stop_regex patterns are allowed, got 33",
        ),
    ];
    refused(
        cases.map(|(params, message)| (json!({"text": "a", "sampling_params": params}), message)),
    )
    .await;
}

#[tokio::test]
async fn what_is_not_offered_and_what_does_not_fit_is_told() {
    refused([
        (
            json!({"text": "a", "image_data": "x"}),
            "image_data is not supported by this server: the model reads and writes text alone; leave it out.",
        ),
        (
            json!({"text": "a", "lora_path": "x"}),
            "lora_path is not supported by this server: adapters are not applied; merge the adapter into the \
             weights and serve those.",
        ),
        (
            json!({"text": "a", "return_hidden_states": true}),
            "return_hidden_states is not supported by this server: answers have tokens, text and \
             log-probabilities, nothing else of a model; leave it out.",
        ),
        (
            json!({"text": ["a", "b"], "sampling_params": [{}]}),
            "The length of sampling_params should be equal to the batch size 2, got 1.",
        ),
        (
            json!({"text": ["a", "b"], "rid": ["x"]}),
            "The length of rid should be equal to the batch size 2, got 1.",
        ),
        (
            json!({"text": "a", "return_logprob": true, "top_logprobs_num": 1_000_000_000_000_i64}),
            "4294967295 log-probabilities a token were asked, the limit is 258",
        ),
        (
            json!({"text": "a", "return_logprob": true, "token_ids_logprob": [1, 258]}),
            "token_ids_logprob contains 258, the vocabulary has 258 tokens.",
        ),
        (
            json!({"text": "a", "return_logprob": true, "token_ids_logprob": [[1]]}),
            "token_ids_logprob: expected a list of integers for a single prompt, got a list of lists",
        ),
        (
            json!({"text": ["a", "b"], "rid": ["x", "x"]}),
            "Duplicate request IDs detected within the request: \"x\". Give each prompt its own rid, or one to all.",
        ),
        (
            json!({"text": "a", "sampling_params": {"stop": vec!["x"; 257]}}),
            "stop: at most 256 strings are taken, got 257; stop_regex says many in one",
        ),
        (
            json!({"text": "a", "sampling_params": {"stop": "x".repeat(1025)}}),
            "stop: a string may have 1024 bytes, got 1025",
        ),
        (
            json!({"text": "a", "sampling_params": {"stop_token_ids": vec![1; 4097]}}),
            "stop_token_ids: at most 4096 are taken, got 4097",
        ),
        (
            json!({"text": "a", "return_logprob": true, "top_logprobs_num": -1}),
            "the number of top log-probabilities must not be negative, got -1.",
        ),
        (
            json!({"text": ["a", "a", "a"], "sampling_params": {"n": 4096}}),
            "a request may ask for 8192 outputs, got 12288.",
        ),
    ])
    .await;
}

#[tokio::test]
async fn malformed_bodies_are_located() {
    let server = start().await;
    let cases: [(&[u8], &str); 6] = [
        (
            b"{",
            "the body is not valid JSON: EOF while parsing an object at line 1 column 1",
        ),
        (
            b"{\"text\": \"\xff\"}",
            "the body is not valid JSON: invalid unicode code point at line 1 column 11",
        ),
        (b"[]", "expected an object, got a list"),
        (
            b"{\"sampling_params\": {\"top_p\": \"1\"}}",
            "sampling_params.top_p: expected a number, got a string",
        ),
        (
            b"{\"text\": [\"a\", 1]}",
            "text[1]: expected a string, got an integer",
        ),
        (
            b"{\"stream\": \"maybe\"}",
            "stream: expected a boolean, got a string",
        ),
    ];
    for path in ["/generate", "/v1/completions", "/v1/chat/completions"] {
        for (body, message) in cases {
            let is_native = message.starts_with("text") || message.starts_with("sampling_params");
            if is_native && path != "/generate" {
                continue;
            }
            let json = Some("application/json");
            let response = server
                .client()
                .send(Method::POST, path, json, body.to_vec())
                .await;
            let answer = crate::harness::answer(response).await;
            assert_eq!(answer.status, 400, "{message}");
            let expected = json!({"object": "error", "message": message, "type": "Bad Request",
                                  "param": null, "code": 400});
            assert_eq!(answer.json(), expected);
        }
    }
}

#[tokio::test]
async fn bad_completions_are_told_why() {
    let server = start().await;
    let cases = [
        (json!({}), "prompt: field required"),
        (json!({"prompt": ""}), "Prompt cannot be empty"),
        (json!({"prompt": []}), "Prompt cannot be empty"),
        (
            json!({"prompt": "a", "max_tokens": 0}),
            "max_tokens must be positive, got 0.",
        ),
        (
            json!({"prompt": "a", "n": 0}),
            "n must be in [1, 4096], got 0.",
        ),
        (
            json!({"prompt": "a", "suffix": "b"}),
            "suffix is not supported by this server: write the prompt with the model's own marks for a gap.",
        ),
        (
            json!({"prompt": "a", "response_format": {"type": "json_object"}}),
            "response_format is not supported by this server: outputs are not held to a form yet; \
             describe the form in the prompt and check the output, or leave it out.",
        ),
        (
            json!({"prompt": "a", "top_p": 3}),
            "top_p must be in (0, 1], got 3.0.",
        ),
        (
            json!({"prompt": [-5]}),
            "prompt contains -5, which is no token.",
        ),
    ];
    for (body, message) in cases {
        let answer = server.client().post("/v1/completions", &body).await;
        assert_eq!(answer.status, 400, "{body}");
        let expected = json!({"object": "error", "message": message, "type": "BadRequestError",
                              "param": null, "code": 400});
        assert_eq!(answer.json(), expected);
    }
}

#[tokio::test]
async fn openai_bodies_must_call_themselves_json() {
    let server = start().await;
    for (content_type, status) in [
        (Some("application/json"), 200),
        (Some("application/json; charset=utf-8"), 200),
        (Some("APPLICATION/JSON"), 200),
        (Some("text/plain"), 400),
        (None, 400),
    ] {
        let body = r#"{"prompt": "a", "max_tokens": 1}"#;
        let response = server
            .client()
            .send(Method::POST, "/v1/completions", content_type, body)
            .await;
        assert_eq!(response.status(), status, "{content_type:?}");
    }
    let body = r#"{"text": "a", "sampling_params": {"max_new_tokens": 1}}"#;
    let native = server
        .client()
        .send(Method::POST, "/generate", None, body)
        .await;
    assert_eq!(native.status(), 200);
}

#[tokio::test]
async fn encoded_bodies_are_refused_by_the_name_of_the_encoding() {
    let server = start().await;
    let client = server.client();
    for (path, body) in [
        ("/generate", r#"{"text": "say:a\n"}"#),
        ("/v1/completions", r#"{"prompt": "say:a\n"}"#),
    ] {
        for (headers, named) in [
            (&["gzip"][..], Some("gzip")),
            (&["deflate"], Some("deflate")),
            (&["br"], Some("br")),
            (&["zstd"], Some("zstd")),
            (&["Identity, X-Gzip"], Some("X-Gzip")),
            (&["gzip", "br"], Some("gzip, br")),
            (&["identity"], None),
            (&["IDENTITY"], None),
            (&[""], None),
        ] {
            let mut sent = vec![("content-type", "application/json")];
            sent.extend(headers.iter().map(|&value| ("content-encoding", value)));
            let response = client.send_with(Method::POST, path, &sent, body).await;
            let taken = response.headers().get("accept-encoding").cloned();
            let answer = crate::harness::answer(response).await;
            let Some(named) = named else {
                assert_eq!((answer.status, taken), (200, None), "{path} {headers:?}");
                continue;
            };
            assert_eq!(answer.status, 415, "{path} {headers:?}");
            assert_eq!(taken.expect("a header"), "identity");
            let message = format!(
                "the request body has the Content-Encoding {named:?}, only identity is taken: send it as it is"
            );
            let expected = if path == "/generate" {
                json!({"error": {"message": message}})
            } else {
                json!({"object": "error", "message": message, "type": "BadRequestError",
                       "param": null, "code": 415})
            };
            assert_eq!(answer.json(), expected);
        }
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_are_answered_with_what_there_is() {
    let server = start().await;
    let client = server.client();
    for (path, message) in [
        (
            "/v1/chat/completion",
            "/v1/chat/completion is not served; did you mean /v1/chat/completions or /v1/completions?",
        ),
        (
            "/v1/responses",
            "/v1/responses is not served: chats are at /v1/chat/completions.",
        ),
        (
            "/v1/embeddings",
            "/v1/embeddings is not served: this server generates text and makes no embeddings, scores or ranks.",
        ),
        (
            "/zzz",
            "/zzz is not served; among others there are /generate, /v1/completions and /v1/chat/completions",
        ),
    ] {
        let answer = client.get(path).await;
        let expected = json!({"detail": "Not Found", "message": message});
        assert_eq!((answer.status, answer.json()), (404, expected));
    }
    let long = client.get(&format!("/{}", "é".repeat(500))).await;
    assert_eq!(long.status, 404);
    assert!(long.body.len() < 400, "{}", long.body);
    let method = client.get("/generate").await;
    let message = "/generate does not take GET; it takes POST and PUT.";
    let expected = json!({"detail": "Method Not Allowed", "message": message});
    assert_eq!((method.status, method.json()), (405, expected));
}

#[tokio::test]
async fn bodies_beyond_reason_are_refused() {
    let server = start().await;
    let body = " ".repeat((64 << 20) + 1);
    let answer = server.client().post_text("/generate", &body).await;
    assert_eq!(answer.status, 413);
    assert!(
        answer.body.contains("larger than 67108864 bytes"),
        "{}",
        answer.body
    );
}

#[tokio::test]
async fn without_a_template_there_are_no_chats() {
    let server = Setup::with(|setup| {
        setup.text = setup.text.take().map(|mut text| {
            text.template = None;
            text
        });
    });
    let server = server.start().await;
    let body = json!({"messages": [{"role": "user", "content": "a"}]});
    let answer = server.client().post("/v1/chat/completions", &body).await;
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("--chat-template"), "{}", answer.body);
}

#[tokio::test]
async fn a_full_queue_is_said_at_once() {
    let server = Setup::with(|setup| setup.engine.max_waiting = 0)
        .start()
        .await;
    let native = server
        .client()
        .post("/generate", &json!({"text": "a"}))
        .await;
    assert_eq!(native.status, 503);
    assert_eq!(
        native.json(),
        json!({"error": {"message": "The request queue is full."}})
    );
    let openai = server
        .client()
        .post("/v1/completions", &json!({"prompt": "a"}))
        .await;
    assert_eq!(openai.status, 503);
    assert_eq!(openai.json()["message"], "The request queue is full.");
}
