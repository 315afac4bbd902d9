//! The names of requests.

use hyper::Method;
use serde_json::{Value, json};

use crate::harness::{Log, start, start_gated};

#[tokio::test]
async fn no_two_requests_that_run_have_one_name() {
    let (gate, server) = start_gated().await;
    let client = server.client();
    gate.open_for(1);
    let long = json!({"text": "x", "rid": "a", "stream": true, "sampling_params": {"n": 2}});
    let events = client.stream("/generate", &long).await;
    for (rid, named) in [
        (json!("a"), "a"),
        (json!("a_1"), "a_1"),
        (json!(["b", "a"]), "a"),
    ] {
        let text = if rid.is_array() {
            json!(["x", "y"])
        } else {
            json!("x")
        };
        let body = json!({"text": text, "rid": rid});
        let answer = client.post("/generate", &body).await;
        assert_eq!(answer.status, 400, "{rid}");
        let expected = format!(
            "Duplicate request ID detected: {named:?} runs already. Choose another rid, or leave it out."
        );
        assert_eq!(answer.json()["error"]["message"], expected.as_str());
    }
    drop(gate);
    drop(events);
    // The name is free again when the request has ended.
    let again = json!({"text": "say:b\n", "rid": "a"});
    while client.post("/generate", &again).await.status != 200 {
        tokio::task::yield_now().await;
    }
}

/// The reasons by which two outputs ended.
async fn ends(abort: &str) -> Vec<(String, String)> {
    let (gate, server) = start_gated().await;
    let client = server.client();
    let asked =
        json!({"text": ["x", "say:y\n"], "rid": "mine", "sampling_params": {"max_new_tokens": 9}});
    let asking = tokio::spawn({
        let client = client.clone();
        async move { client.post("/generate", &asked).await }
    });
    while client.get("/server_info").await.json()["internal_states"][0]["open_sequences"] != 2 {
        tokio::task::yield_now().await;
    }
    let answer = client.post("/abort_request", &json!({"rid": abort})).await;
    assert_eq!(answer.status, 200);
    drop(gate);
    let answer = asking.await.expect("an answer").json();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let end = |one: &Value| {
        let info = &one["meta_info"];
        (text(&info["id"]), text(&info["finish_reason"]["type"]))
    };
    answer
        .as_array()
        .expect("a batch")
        .iter()
        .map(end)
        .collect()
}

#[tokio::test]
async fn a_request_is_aborted_by_its_whole_name_and_not_by_the_beginning_of_it() {
    for (abort, reasons) in [
        ("m", ["length", "stop"]),
        ("mine_", ["length", "stop"]),
        ("mine", ["abort", "abort"]),
        ("mine_0", ["abort", "stop"]),
    ] {
        let ids = ["mine_0", "mine_1"].map(str::to_owned);
        let expected: Vec<_> = ids.into_iter().zip(reasons.map(str::to_owned)).collect();
        assert_eq!(ends(abort).await, expected, "{abort}");
    }
}

#[tokio::test]
async fn a_request_whose_client_leaves_is_told_of_in_the_log() {
    let (log, _guard) = Log::keep();
    for (rid, quiet) in [("mine", false), ("secret", true)] {
        let (gate, server) = start_gated().await;
        let client = server.client();
        gate.open_for(2);
        let body = json!({"text": "x", "rid": rid, "stream": true, "no_logs": quiet});
        let mut events = client.stream("/generate", &body).await;
        events.next().await.expect("an event");
        drop(events);
        while client.get("/server_info").await.json()["internal_states"][0]["open_sequences"] != 0 {
            tokio::task::yield_now().await;
        }
    }
    let said = log.lines_with("Abort: ");
    assert_eq!(said.len(), 1, "{said:?}");
    let expected = "Abort: rid=mine, open_outputs=1, outputs=1, output_tokens=";
    assert!(said[0].contains(expected), "{said:?}");
}

#[tokio::test]
async fn every_answer_has_the_name_that_its_request_brought_or_a_new_one() {
    let server = start().await;
    let client = server.client();
    for (path, given, kept) in [
        ("/ping", Some("trace-1.2:3"), true),
        ("/nowhere", Some("trace"), true),
        ("/v1/models", Some("<script>"), false),
        ("/ping", Some(""), false),
        ("/ping", None, false),
    ] {
        let header = given.map(|name| ("x-request-id", name));
        let sent = client.send_with(Method::GET, path, header.as_slice(), "");
        let answer = sent.await;
        let name = answer.headers()["x-request-id"].to_str().expect("text");
        assert_eq!(given == Some(name), kept, "{path} {given:?}: {name}");
        assert!(kept || name.len() == 32, "{name}");
    }
}
