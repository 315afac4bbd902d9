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
            "regex is not supported by this server.",
        ),
        (
            json!({"json_schema": "{}"}),
            "json_schema is not supported by this server.",
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
            "image_data is not supported by this server.",
        ),
        (
            json!({"text": "a", "lora_path": "x"}),
            "lora_path is not supported by this server.",
        ),
        (
            json!({"text": "a", "return_hidden_states": true}),
            "return_hidden_states is not supported by this server.",
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
            json!({"text": "a", "return_logprob": true, "top_logprobs_num": -1}),
            "the number of top log-probabilities must not be negative, got -1.",
        ),
        (
            json!({"text": vec!["a"; 20], "sampling_params": {"n": 4096}}),
            "a request may ask for 65536 outputs, got 81920.",
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
            "suffix is not supported by this server.",
        ),
        (
            json!({"prompt": "a", "response_format": {"type": "json_object"}}),
            "response_format is not supported by this server.",
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
async fn bad_chats_are_told_why() {
    let server = start().await;
    let chat = |more: Value| {
        let mut body = json!({"messages": [{"role": "user", "content": "say:hi"}]});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    };
    let image = json!([{"type": "image_url", "image_url": {"url": "x"}}]);
    let tool = json!([{"type": "function", "function": {"name": "f"}}]);
    let cases = [
        (json!({}), "messages: field required"),
        (json!({"messages": []}), "Messages cannot be empty."),
        (
            json!({"messages": [{"content": "a"}]}),
            "messages[0].role: field required",
        ),
        (
            json!({"messages": [{"role": "robot", "content": "a"}]}),
            "messages[0].role: expected one of system, user, assistant, tool, function, \
             developer, got \"robot\"",
        ),
        (
            json!({"messages": [{"role": "user", "content": null}]}),
            "messages[0].content: field required",
        ),
        (
            json!({"messages": [{"role": "user", "content": image}]}),
            "messages[0].content[0]: image_url is not supported by this server.",
        ),
        (
            chat(json!({"top_logprobs": 2})),
            "top_logprobs needs logprobs to be true.",
        ),
        (
            chat(json!({"tools": tool, "tool_choice": "required"})),
            "tool_choice \"required\" is not supported by this server.",
        ),
        (
            chat(json!({"tool_choice": "required"})),
            "tool_choice \"required\" is not supported by this server.",
        ),
        (
            chat(
                json!({"tools": tool, "tool_choice": {"type": "function", "function": {"name": "f"}}}),
            ),
            "tool_choice with a named function is not supported by this server.",
        ),
        (
            chat(json!({"tools": tool, "tool_choice": "banana"})),
            "tool_choice: expected auto, none, required or a function with its name",
        ),
        (
            chat(json!({"tool_choice": 5})),
            "tool_choice: expected auto, none, required or a function with its name",
        ),
        (
            chat(json!({"tools": [{"type": "function"}]})),
            "tools[0].function.name: field required",
        ),
        (
            chat(json!({"max_tokens": -1})),
            "max_tokens must be positive, got -1.",
        ),
    ];
    for (body, message) in cases {
        let answer = server.client().post("/v1/chat/completions", &body).await;
        assert_eq!(answer.status, 400, "{body}");
        assert_eq!(answer.json()["message"], message, "{body}");
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
async fn unknown_paths_and_methods() {
    let server = start().await;
    let nowhere = server.client().get("/nowhere").await;
    assert_eq!(
        (nowhere.status, nowhere.json()),
        (404, json!({"detail": "Not Found"}))
    );
    let method = server.client().get("/generate").await;
    assert_eq!(
        (method.status, method.json()),
        (405, json!({"detail": "Method Not Allowed"}))
    );
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
