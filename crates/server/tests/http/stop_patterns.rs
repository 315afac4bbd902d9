//! Patterns that end an output, through every endpoint.

use serde_json::{Value, json};

use crate::harness::start;

/// Parameters, the text, what ended it, and how many tokens: one for each letter, and the end.
fn cases() -> Vec<(Value, &'static str, Value, u64)> {
    let text = "stop at 12 or 345.";
    let whole = (text, json!(256), 19);
    vec![
        // The text of a match stays, up to the token that completed it.
        (json!({"stop_regex": r"\d+"}), "stop at 1", json!(r"\d+"), 9),
        (
            json!({"stop_regex": r"\d{3}"}),
            "stop at 12 or 345",
            json!(r"\d{3}"),
            17,
        ),
        (
            json!({"stop_regex": ["[x-z]", r"\w+ \w"]}),
            "stop a",
            json!(r"\w+ \w"),
            6,
        ),
        (json!({"stop_regex": r"\.$"}), text, json!(r"\.$"), 18),
        // Plain text is cut, as a stop string is.
        (json!({"stop_regex": "12"}), "stop at ", json!("12"), 10),
        (
            json!({"stop_regex": "12", "no_stop_trim": true}),
            "stop at 12",
            json!("12"),
            10,
        ),
        // Whatever comes first.
        (
            json!({"stop_regex": r"\d{2}", "stop": " at"}),
            "stop",
            json!(" at"),
            7,
        ),
        (
            json!({"stop_regex": r"\d{2}", "stop": "at 12 o"}),
            "stop at 12",
            json!(r"\d{2}"),
            10,
        ),
        (json!({"stop_regex": "[x-z]"}), whole.0, whole.1, whole.2),
        (json!({"stop_regex": []}), text, json!(256), 19),
    ]
}

#[tokio::test]
async fn patterns_end_the_output_where_they_are_completed() {
    let server = start().await;
    for (params, text, matched, tokens) in cases() {
        let mut body = json!({"text": "say:stop at 12 or 345.\n", "sampling_params": params});
        let answer = server.client().post("/generate", &body).await.json();
        assert_eq!(answer["text"], text, "{params}");
        let meta = &answer["meta_info"];
        let reason = json!({"type": "stop", "matched": matched});
        assert_eq!(meta["finish_reason"], reason, "{params}");
        assert_eq!(meta["completion_tokens"], tokens, "{params}");
        body["stream"] = json!(true);
        let events = server.client().stream_all("/generate", &body).await;
        let last = events.last().expect("events");
        assert_eq!(last["text"], text, "{params}");
        assert_eq!(last["meta_info"]["finish_reason"], reason, "{params}");
        for event in &events {
            let said = event["text"].as_str().expect("text");
            assert!(text.starts_with(said), "{params}: {said}");
        }
    }
}

#[tokio::test]
async fn the_openai_endpoints_take_patterns_too() {
    let server = start().await;
    for (params, text, matched, _) in cases() {
        let mut body = params.clone();
        body["prompt"] = json!("say:stop at 12 or 345.\n");
        body["max_tokens"] = json!(50);
        let answer = server.client().post("/v1/completions", &body).await.json();
        let choice = &answer["choices"][0];
        assert_eq!(choice["text"], text, "{params}");
        assert_eq!(choice["finish_reason"], "stop", "{params}");
        assert_eq!(choice["matched_stop"], matched, "{params}");
        body["stream"] = json!(true);
        let events = server.client().stream_all("/v1/completions", &body).await;
        let pieces = events
            .iter()
            .filter_map(|event| event["choices"][0]["text"].as_str());
        assert_eq!(pieces.collect::<String>(), text, "{params}");
    }
    let wrong = json!({"prompt": "a", "stop_regex": "a(?!b)"});
    let answer = server.client().post("/v1/completions", &wrong).await;
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("a(?!b)"), "{}", answer.body);
}

#[tokio::test]
async fn a_batch_has_patterns_for_each() {
    let server = start().await;
    let params = json!([{"stop_regex": "[bc]"}, {"stop_regex": "[d-f]"}, {"stop_regex": "[d-f]"}]);
    let body = json!({"text": vec!["say:abcdefg\n"; 3], "sampling_params": params});
    let answers = server.client().post("/generate", &body).await.json();
    let texts: Vec<&Value> = (0..3).map(|index| &answers[index]["text"]).collect();
    assert_eq!(texts, ["ab", "abcd", "abcd"]);
}
