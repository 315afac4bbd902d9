//! Requests that are larger than their use.

use serde_json::json;
use text::{SpecialTokens, Template};

use crate::harness::{Setup, start};

#[tokio::test]
async fn lists_of_integers_that_are_no_prompts_have_an_end() {
    let server = start().await;
    let client = server.client();
    let ints = format!("[{}0]", "0,".repeat(300_000));
    let chat = r#""messages": [{"role": "user", "content": "a"}]"#;
    for (path, body) in [
        (
            "/v1/chat/completions",
            format!(r#"{{{chat}, "chat_template_kwargs": {{"a": {ints}}}}}"#),
        ),
        (
            "/v1/chat/completions",
            format!(r#"{{{chat}, "tools": [{{"a": {ints}}}]}}"#),
        ),
        (
            "/v1/completions",
            format!(r#"{{"prompt": "a", "session_params": {ints}}}"#),
        ),
        (
            "/generate",
            format!(r#"{{"text": "a", "session_params": {{"a": {ints}}}}}"#),
        ),
    ] {
        let answer = client.post_text(path, &body).await;
        assert_eq!(answer.status, 413, "{path}: {}", answer.body);
        assert_eq!(answer.json()["code"], 413, "{path}");
    }
    // As tokens of a prompt there may be so many: they are counted, and found to be too many for the model.
    let answer = client
        .post_text("/generate", &format!(r#"{{"input_ids": {ints}}}"#))
        .await;
    assert_eq!(answer.status, 400);
    assert!(
        answer.body.contains("The input (300001 tokens)"),
        "{}",
        answer.body
    );
}

#[tokio::test]
async fn messages_and_tools_are_taken_up_to_a_number() {
    let server = start().await;
    let client = server.client();
    let message = json!({"role": "user", "content": ""});
    let tool = json!({"function": {"name": "f"}});
    for (body, expected) in [
        (
            json!({"messages": vec![&message; 16_385]}),
            "messages: at most 16384 are taken, got 16385; join some or leave some out",
        ),
        (
            json!({"messages": [&message], "tools": vec![&tool; 4097]}),
            "tools: at most 4096 are taken, got 4097; leave some out",
        ),
    ] {
        let answer = client.post("/v1/chat/completions", &body).await;
        assert_eq!(answer.status, 400);
        assert_eq!(answer.json()["message"], expected);
    }
}

#[tokio::test]
async fn others_are_answered_while_a_template_takes_its_time() {
    let setup = Setup::with(|setup| {
        let slow = "{%- for i in range(500) -%}{%- for j in range(500) -%}{%- endfor -%}{%- endfor -%}\
                    {{ raise_exception('enough') }}";
        let template = Template::compile(slow, &SpecialTokens::default());
        let text = setup.text.as_mut().expect("the default has text");
        text.template = Some(template.expect("the template is sound"));
    });
    let server = setup.start().await;
    let chat = async {
        let body = json!({"messages": [{"role": "user", "content": "a"}]});
        let path = "/v1/chat/completions";
        server.client().post(path, &body).await
    };
    tokio::pin!(chat);
    // The chat is active while it is rendered and at no other time, for rendering fails.
    let active = "sglang:http_requests_active{";
    let mut seen = false;
    let answer = loop {
        let client = server.client();
        tokio::select! {
            biased;
            answer = &mut chat => break answer,
            metrics = client.get("/metrics") => {
                let mut lines = metrics.body.lines().filter(|line| line.starts_with(active));
                seen |= lines.any(|line| line.contains("/v1/chat") && line.ends_with(" 1.0"));
            }
        }
    };
    assert_eq!(
        (answer.status, answer.json()["message"].as_str()),
        (400, Some("enough"))
    );
    assert!(seen, "nothing was answered while the template was rendered");
}

#[tokio::test]
async fn texts_and_tokens_are_converted_up_to_a_length() {
    let server = start().await;
    let client = server.client();
    let limit = 1 << 20;
    let half = "a".repeat(limit / 2);
    let answer = client
        .post("/tokenize", &json!({"prompt": [&half, &half, "b"]}))
        .await;
    assert_eq!(answer.status, 400);
    assert_eq!(
        answer.json()["message"],
        "/tokenize takes 1048576 bytes of text at once, got 1048577; send them in parts."
    );
    let answer = client
        .post("/detokenize", &json!({"tokens": vec![97; limit + 1]}))
        .await;
    assert_eq!(
        answer.json()["message"],
        "/detokenize takes 1048576 tokens at once, got 1048577; send them in parts."
    );
}
