//! The description of the server, held against what the server does.

use hyper::Method;
use serde_json::{Map, Value, json};
use server::OpenApi;

use crate::harness::{Setup, answer, start};

const METHODS: [Method; 5] = [
    Method::GET,
    Method::POST,
    Method::PUT,
    Method::DELETE,
    Method::PATCH,
];

fn members(value: &Value) -> &Map<String, Value> {
    value.as_object().expect("an object")
}

#[tokio::test]
async fn what_is_described_is_answered_and_nothing_else() {
    let server = start().await;
    let document = server.client().get("/openapi.json").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    let paths = members(&document["paths"]);
    assert!(paths.len() > 25, "{}", paths.len());
    for (path, operations) in paths {
        let path = path.replace("{id}", "org/tiny");
        for method in METHODS {
            // A body that nobody can read: what reads it says so and does nothing.
            let sent = server
                .client()
                .send(method.clone(), &path, Some("application/json"), "[")
                .await;
            let answer = answer(sent).await;
            let name = method.as_str().to_lowercase();
            let Some(operation) = operations.get(&name) else {
                assert_eq!(answer.status, 405, "{method} {path}");
                continue;
            };
            let described = operation["responses"].get(answer.status.to_string());
            assert!(described.is_some(), "{method} {path}: {}", answer.status);
            let reads = operation.get("requestBody").is_some();
            // where nothing is recorded, there is nothing to stop
            let refuses = reads || path == "/stop_profile";
            assert_eq!(answer.status == 400, refuses, "{method} {path}");
        }
    }
    assert_eq!(server.client().get("/nowhere").await.status, 404);
}

/// A value that asks for something, of a type that the schema allows.
fn asking(name: &str, schema: &Value) -> Value {
    match schema["type"][0].as_str() {
        Some("boolean") => json!(true),
        Some("string") => json!("x"),
        _ if name == "tool_choice" => json!("required"),
        _ if schema.get("anyOf").is_some() => json!("x"),
        _ => json!({"a": 1}),
    }
}

#[tokio::test]
async fn what_is_described_as_refused_is_refused() {
    let server = start().await;
    let document = server.client().get("/openapi.json").await.json();
    let mut refused = 0;
    for (path, mut body) in [
        ("/generate", json!({"text": "a"})),
        ("/v1/completions", json!({"prompt": "a"})),
        (
            "/v1/chat/completions",
            json!({
                "messages": [{"role": "user", "content": "a"}],
                "tools": [{"type": "function", "function": {"name": "f"}}],
            }),
        ),
    ] {
        let content = &document["paths"][path]["post"]["requestBody"]["content"];
        let schema = &content["application/json"]["schema"];
        let inner = &schema["properties"]["sampling_params"]["anyOf"][0];
        for (at, schema) in [("", schema), ("/sampling_params", inner)] {
            let properties = schema["properties"].as_object().into_iter().flatten();
            for (name, schema) in properties {
                let about = schema["description"].as_str().expect("a description");
                if !about.contains("Refused") {
                    continue;
                }
                refused += 1;
                if at == "/sampling_params" {
                    body["sampling_params"] = json!({});
                }
                let place = body.pointer_mut(at).expect("a place");
                place[name] = asking(name, schema);
                let answer = server.client().post(path, &body).await;
                let text = &answer.body;
                assert_eq!(answer.status, 400, "{path} {name}: {text}");
                assert!(text.contains(name), "{path} {name}: {text}");
                assert!(text.contains("is not supported"), "{path} {name}: {text}");
                body.pointer_mut(at).expect("a place")[name] = Value::Null;
            }
        }
    }
    assert!(refused > 20, "{refused}");
}

/// Bodies that are answered, by path.
fn sound_bodies() -> [(&'static str, Value); 7] {
    [
        ("/generate", json!({"text": "say:a\n"})),
        ("/v1/completions", json!({"prompt": "say:a\n"})),
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": "user", "content": "say:a"}]}),
        ),
        ("/v1/tokenize", json!({"prompt": "a"})),
        ("/v1/detokenize", json!({"tokens": [97]})),
        (
            "/parse_function_call",
            json!({"text": "a", "tool_call_parser": "qwen25"}),
        ),
        (
            "/separate_reasoning",
            json!({"text": "a", "reasoning_parser": "qwen3"}),
        ),
    ]
}

#[tokio::test]
async fn members_must_be_there_may_be_null_and_have_a_type_as_described() {
    let server = start().await;
    let client = server.client();
    let document = client.get("/openapi.json").await.json();
    for (path, base) in sound_bodies() {
        let content = &document["paths"][path]["post"]["requestBody"]["content"];
        let schema = &content["application/json"]["schema"];
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        assert_eq!(
            required.is_empty(),
            ["/generate", "/v1/tokenize"].contains(&path),
            "{path}"
        );
        for (name, member) in members(&schema["properties"]) {
            let takes = |kind: &str| member.to_string().contains(&format!("\"{kind}\""));
            let anything = members(member).keys().eq(["description"]);
            let is_required = required.contains(&json!(name));
            assert_eq!(
                takes("null") || anything,
                !is_required,
                "{path} {name}: {member}"
            );
            let mut body = base.clone();
            body[name] = Value::Null;
            let given = !base[name].is_null();
            let expected = if given { 400 } else { 200 };
            let answer = client.post(path, &body).await;
            assert_eq!(answer.status, expected, "{path} {name}: {}", answer.body);
            if !takes("object") && !anything {
                body[name] = json!({"of": "no such type"});
                let answer = client.post(path, &body).await;
                assert_eq!(answer.status, 400, "{path} {name}: {}", answer.body);
                let names = answer.body.contains(&format!("{name}: expected"));
                assert!(names, "{path} {name}: {}", answer.body);
            }
        }
    }
}

#[tokio::test]
async fn errors_have_the_described_form() {
    let server = start().await;
    let document = server.client().get("/openapi.json").await.json();
    let form = &document["components"]["schemas"]["OpenAiError"];
    let answer = server.client().post("/v1/completions", &json!({})).await;
    let error = answer.json();
    let (found, said) = (members(&error), members(&form["properties"]));
    assert!(found.keys().eq(said.keys()), "{error}");
}

#[tokio::test]
async fn whatever_reads_a_body_refuses_encoded_ones_and_is_described_so() {
    let server = start().await;
    let client = server.client();
    let document = client.get("/openapi.json").await.json();
    let headers = [
        ("content-type", "application/json"),
        ("content-encoding", "gzip"),
    ];
    for (path, operations) in members(&document["paths"]) {
        for (name, operation) in members(operations) {
            let reads = operation.get("requestBody").is_some();
            let described = operation["responses"].get("415").is_some();
            assert_eq!(described, reads, "{name} {path}");
            if reads {
                let method = name.to_uppercase().parse().expect("a method");
                let sent = client.send_with(method, path, &headers, "{}");
                assert_eq!(sent.await.status(), 415, "{name} {path}");
            }
        }
    }
}

#[tokio::test]
async fn the_description_can_be_switched_off_and_wants_the_key_that_others_want() {
    let off = Setup::with(|setup| setup.server.openapi = OpenApi::Off);
    let server = off.start().await;
    assert_eq!(server.client().get("/openapi.json").await.status, 404);
    let locked = Setup::with(|setup| setup.server.keys.api = Some("k".to_owned()));
    let server = locked.start_with_key("k").await;
    assert_eq!(server.client().get("/openapi.json").await.status, 401);
    let document = server.client().with_key("k").get("/openapi.json").await;
    let paths = &document.json()["paths"];
    for (path, wanted) in [("/generate", true), ("/metrics", true), ("/health", false)] {
        let operation = members(&paths[path]).values().next().expect("a method");
        assert_eq!(operation.get("security").is_some(), wanted, "{path}");
        let denied = operation["responses"].get("401");
        assert_eq!(denied.is_some(), wanted, "{path}");
    }
}
