//! The JSON shapes that clients see, and the ones our client must understand.

use expect_test::{Expect, expect};
use protocol::json::{FromJson, read};
use protocol::native::{ErrorBody, FinishReason, GenerateRequest, GenerateResponse, Matched};
use protocol::openai::{
    ChatChunk, ChatChunkChoice, ChatRequest, CompletionChunk, CompletionRequest, Delta,
    ErrorResponse, ModelCard, ModelList, ModelNotFound, Usage,
};
use serde::Serialize;

fn check<T: Serialize>(value: &T, expected: &Expect) {
    expected.assert_eq(&serde_json::to_string(value).expect("values are JSON"));
}

#[test]
fn a_chat_chunk_spells_out_what_is_absent() {
    let delta = Delta {
        role: Some("assistant".into()),
        content: Some(String::new()),
        ..Delta::default()
    };
    let chunk = ChatChunk {
        id: "abc".into(),
        object: "chat.completion.chunk".into(),
        created: 1,
        model: "m".into(),
        choices: vec![ChatChunkChoice {
            delta,
            ..ChatChunkChoice::default()
        }],
        usage: None,
    };
    check(
        &chunk,
        &expect![[
            r#"{"id":"abc","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning_content":null,"tool_calls":null},"logprobs":null,"finish_reason":null,"matched_stop":null}],"usage":null}"#
        ]],
    );
}

#[test]
fn finish_reasons_have_a_type() {
    check(
        &[
            FinishReason::Stop {
                matched: Some(Matched::Token(2)),
            },
            FinishReason::Stop {
                matched: Some(Matched::Text("END".to_owned())),
            },
            FinishReason::Stop { matched: None },
            FinishReason::Length { length: 8 },
            FinishReason::Abort {
                message: "m".to_owned(),
                status_code: None,
                err_type: None,
            },
        ],
        &expect![[
            r#"[{"type":"stop","matched":2},{"type":"stop","matched":"END"},{"type":"stop","matched":null},{"type":"length","length":8},{"type":"abort","message":"m","status_code":null,"err_type":null}]"#
        ]],
    );
}

#[test]
fn errors_models_and_counts() {
    check(
        &ErrorResponse::new("no", "Bad Request", 400),
        &expect![[
            r#"{"object":"error","message":"no","type":"Bad Request","param":null,"code":400}"#
        ]],
    );
    check(
        &ErrorBody::new("no"),
        &expect![[r#"{"error":{"message":"no"}}"#]],
    );
    check(
        &ModelNotFound::new("x"),
        &expect![[
            r#"{"error":{"message":"The model 'x' does not exist","type":"invalid_request_error","param":"model","code":"model_not_found"}}"#
        ]],
    );
    check(
        &ModelList::new(vec![ModelCard::new("m", 5, 2048)]),
        &expect![[
            r#"{"object":"list","data":[{"id":"m","object":"model","created":5,"owned_by":"sglang","root":"m","parent":null,"max_model_len":2048}]}"#
        ]],
    );
    check(
        &[Usage::new(3, 4, Some(2)), Usage::new(3, 4, Some(0))],
        &expect![[
            r#"[{"prompt_tokens":3,"total_tokens":7,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":2},"reasoning_tokens":0},{"prompt_tokens":3,"total_tokens":7,"completion_tokens":4,"prompt_tokens_details":null,"reasoning_tokens":0}]"#
        ]],
    );
}

fn read_back<T: FromJson + Serialize>(text: &str, expected: &Expect) {
    let request: T = read(text.as_bytes()).expect("requests are well-formed");
    check(&request, expected);
}

#[test]
fn what_benchmark_clients_send_is_understood() {
    read_back::<GenerateRequest>(
        r#"{"text":"a","sampling_params":{"temperature":0.0,"max_new_tokens":5,"ignore_eos":true},
            "stream":true,"lora_path":null,"return_logprob":false,"return_routed_experts":false,
            "logprob_start_len":-1,"image_data":null}"#,
        &expect![[
            r#"{"text":"a","sampling_params":{"max_new_tokens":5,"temperature":0.0,"ignore_eos":true},"return_logprob":false,"logprob_start_len":-1,"stream":true,"return_routed_experts":false}"#
        ]],
    );
    read_back::<CompletionRequest>(
        r#"{"model":"m","prompt":[1,2],"temperature":0.0,"best_of":1,"max_tokens":5,"stream":true,
            "ignore_eos":true,"stream_options":{"include_usage":true}}"#,
        &expect![[
            r#"{"prompt":[1,2],"max_tokens":5,"best_of":1,"model":"m","stream":true,"stream_options":{"include_usage":true},"ignore_eos":true,"temperature":0.0}"#
        ]],
    );
    read_back::<ChatRequest>(
        r#"{"model":"m","messages":[{"role":"user","content":"a","extra":1}],"temperature":0.0,
            "max_completion_tokens":5,"stream":true,"ignore_eos":true}"#,
        &expect![[
            r#"{"messages":[{"role":"user","content":"a","extra":1}],"max_completion_tokens":5,"model":"m","stream":true,"ignore_eos":true,"temperature":0.0}"#
        ]],
    );
}

#[test]
fn answers_of_other_servers_are_understood() {
    let chunk: ChatChunk<'_> = serde_json::from_str(
        r#"{"id":"x","choices":[{"index":0,"delta":{"content":"a"},"new":1}],"usage":null,
            "system_fingerprint":"f"}"#,
    )
    .unwrap();
    assert_eq!(chunk.choices[0].delta.content.as_deref(), Some("a"));

    let chunk: CompletionChunk<'_> = serde_json::from_str(
        r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}"#,
    )
    .unwrap();
    assert_eq!(chunk.usage.map(|usage| usage.completion_tokens), Some(2));

    let response: GenerateResponse = serde_json::from_str(
        r#"{"text":"a","meta_info":{"id":"x","completion_tokens":2,"num_retractions":0,
            "finish_reason":{"type":"length","length":2},"spec_accept_length":2.5}}"#,
    )
    .unwrap();
    assert_eq!(response.meta_info.completion_tokens, 2);
    assert_eq!(response.meta_info.spec_accept_length, Some(2.5));
    assert_eq!(response.meta_info.timing, None);
}
