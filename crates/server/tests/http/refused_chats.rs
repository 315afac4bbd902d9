//! Chats that are refused, and what they are told.

use serde_json::{Value, json};

use crate::harness::start;

/// A chat with more members.
fn chat(more: &Value) -> Value {
    let mut body = json!({"messages": [{"role": "user", "content": "say:hi"}]});
    for (name, value) in more.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

/// Every chat is refused with its message.
async fn refused(cases: impl IntoIterator<Item = (Value, &'static str)>) {
    let server = start().await;
    for (body, message) in cases {
        let answer = server.client().post("/v1/chat/completions", &body).await;
        assert_eq!(answer.status, 400, "{body}");
        assert_eq!(answer.json()["message"], message, "{body}");
    }
}

#[tokio::test]
async fn bad_chats_are_told_why() {
    let image = json!([{"type": "image_url", "image_url": {"url": "x"}}]);
    refused([
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
            "messages[0].content[0]: image_url is not supported by this server: the model reads text alone.",
        ),
        (
            chat(&json!({"top_logprobs": 2})),
            "top_logprobs needs logprobs to be true.",
        ),
        (
            chat(&json!({"modalities": ["text", "audio"]})),
            "modalities: \"audio\" is not supported by this server: answers are text; ask for [\"text\"], or leave it \
             out.",
        ),
        (
            chat(&json!({"stream_options": {"continuous_usage_stats": true}})),
            "stream_options.continuous_usage_stats needs stream to be true; leave it out or ask for a stream.",
        ),
        (
            chat(&json!({"max_completion_tokens": 513})),
            "max_completion_tokens is too large: 513. This model supports at most 512 completion tokens.",
        ),
        (
            chat(&json!({"max_tokens": i64::MAX})),
            "max_completion_tokens is too large: 9223372036854775807. This model supports at most 512 completion \
             tokens.",
        ),
        (
            chat(&json!({"max_tokens": -1})),
            "max_tokens must be positive, got -1.",
        ),
    ])
    .await;
}

#[tokio::test]
async fn bad_tools_are_told_why() {
    let tool = json!([{"type": "function", "function": {"name": "f"}}]);
    refused([
        (
            chat(&json!({"tools": tool, "tool_choice": "required"})),
            "tool_choice \"required\" is not supported by this server: calls are not enforced yet; use tool_choice \
             \"auto\" and ask for the call in the prompt.",
        ),
        (
            chat(&json!({"tool_choice": "required"})),
            "tool_choice \"required\" is not supported by this server: calls are not enforced yet; use tool_choice \
             \"auto\" and ask for the call in the prompt.",
        ),
        (
            chat(
                &json!({"tools": tool, "tool_choice": {"type": "function", "function": {"name": "f"}}}),
            ),
            "tool_choice with a named function is not supported by this server: calls are not enforced yet; use \
             tool_choice \"auto\" and ask for the call in the prompt.",
        ),
        (
            chat(&json!({"tools": tool, "tool_choice": "banana"})),
            "tool_choice: expected auto, none, required or a function with its name",
        ),
        (
            chat(&json!({"tool_choice": 5})),
            "tool_choice: expected auto, none, required or a function with its name",
        ),
        (
            chat(&json!({"tools": [{"type": "function"}]})),
            "tools[0].function.name: field required",
        ),
        (
            chat(
                &json!({"tools": [{"type": "function", "function": {"name": "f", "strict": true}}]}),
            ),
            "tools[0].function.strict is not supported by this server: arguments are not held to their schema yet; \
             leave it out and check them in the client.",
        ),
    ])
    .await;
}
