//! Members of requests that this server does not know.

use serde_json::{Value, json};

use crate::harness::{Log, start};

/// What other servers' clients write to change an answer.
fn foreign() -> Vec<(&'static str, Value)> {
    let schema = json!({"type": "object"});
    vec![
        ("structured_outputs", json!({"json": schema})),
        ("guided_json", schema.clone()),
        ("guided_regex", json!("a+")),
        ("guided_choice", json!(["a", "b"])),
        ("guided_grammar", json!("root ::= \"a\"")),
        ("grammar", json!("root ::= \"a\"")),
        ("json_schema", schema),
        ("use_beam_search", json!(true)),
        ("functions", json!([{"name": "f"}])),
        ("function_call", json!({"name": "f"})),
        ("bad_words", json!(["a"])),
        ("audio", json!({"voice": "x"})),
        ("web_search_options", json!({"search_context_size": "low"})),
        ("include_stop_str_in_output", json!(true)),
        ("prompt_logprobs", json!(1)),
        ("allowed_token_ids", json!([1, 2])),
    ]
}

#[tokio::test]
async fn what_would_change_an_answer_is_refused_with_a_way_out() {
    let server = start().await;
    let client = server.client();
    let messages = json!([{"role": "user", "content": "say:a"}]);
    for (path, base) in [
        ("/generate", json!({"text": "say:a\n"})),
        ("/v1/completions", json!({"prompt": "say:a\n"})),
        ("/v1/chat/completions", json!({"messages": messages})),
    ] {
        for (name, value) in foreign() {
            let mut body = base.clone();
            body[name] = value;
            let answer = client.post(path, &body).await;
            assert_eq!(answer.status, 400, "{path} {name}: {}", answer.body);
            let error = answer.json();
            let message = error["error"]["message"].as_str();
            let message = message.or(error["message"].as_str()).expect("a message");
            let says = format!("{name} is not supported by this server: ");
            assert!(message.starts_with(&says), "{path}: {message}");
            assert!(message.len() > says.len() + 10, "{path}: {message}");
            for off in [json!(null), json!(false), json!([])] {
                body[name] = off;
                let answer = client.post(path, &body).await;
                assert_eq!(answer.status, 200, "{path} {body}: {}", answer.body);
            }
        }
    }
    let inside = json!({"text": "a", "sampling_params": {"guided_json": {"type": "object"}}});
    let answer = client.post("/generate", &inside).await;
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("sampling_params.guided_json is not"));
}

#[tokio::test]
async fn a_slip_of_the_pen_is_ignored_counted_and_logged_once() {
    let (log, _guard) = Log::keep();
    let server = start().await;
    let client = server.client();
    let body = json!({"prompt": "say:a\n", "temprature": 0.5, "ev\nil\u{1b}[1m": 1, "user": "me"});
    for _ in 0..3 {
        let answer = client.post("/v1/completions", &body).await;
        assert_eq!(answer.json()["choices"][0]["text"], "a");
    }
    let metrics = client.get("/metrics").await.body;
    let counted = metrics
        .lines()
        .find(|line| line.starts_with("sglang:unknown_request_members_total{"));
    assert!(
        counted.is_some_and(|line| line.ends_with(" 6.0")),
        "{counted:?}"
    );
    let said = log.lines_with("is not known and ignored");
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("\"temprature\""), "{said:?}");
    assert!(said[1].contains(r#""ev\nil\u{1b}[1m""#), "{said:?}");
}

#[tokio::test]
async fn too_many_unknown_members_are_refused() {
    let server = start().await;
    let mut body = json!({"text": "a"});
    for number in 0..65 {
        body[format!("m{number}")] = json!(1);
    }
    let answer = server.client().post("/generate", &body).await;
    assert_eq!(answer.status, 400);
    assert!(
        answer
            .body
            .contains("more than 64 members that are not known"),
        "{}",
        answer.body
    );
}
