//! Which keys open what.

use serde_json::json;

use crate::harness::{Setup, TestServer};

async fn start(api: Option<&str>, admin: Option<&str>) -> TestServer {
    let setup = Setup::with(|setup| {
        setup.server.keys.api = api.map(str::to_owned);
        setup.server.keys.admin = admin.map(str::to_owned);
    });
    setup.start_with_key(api.unwrap_or("none")).await
}

/// Statuses of a client's request, of an operator's, and of metrics, with this key.
async fn opened(server: &TestServer, key: Option<&str>) -> [u16; 3] {
    let client = server.client();
    let client = match key {
        Some(key) => client.with_key(key),
        None => client,
    };
    let body = json!({"text": "a", "sampling_params": {"max_new_tokens": 1}});
    let generated = client.post("/generate", &body).await.status;
    let admin = json!({"rid": "nobody"});
    let mut statuses = vec![client.post("/abort_request", &admin).await.status];
    for path in ["/flush_cache?timeout=10", "/freeze_gc"] {
        statuses.push(client.get(path).await.status);
    }
    assert!(
        statuses.iter().all(|status| *status == statuses[0]),
        "{statuses:?}"
    );
    [generated, statuses[0], client.get("/metrics").await.status]
}

#[tokio::test]
async fn each_key_opens_what_it_opens_in_sglang() {
    for (api, admin, key, expected) in [
        (None, None, None, [200, 200, 200]),
        (Some("a"), None, None, [401, 401, 401]),
        (Some("a"), None, Some("b"), [401, 401, 401]),
        (Some("a"), None, Some("a"), [200, 200, 200]),
        (None, Some("b"), None, [200, 401, 200]),
        (None, Some("b"), Some("a"), [200, 401, 200]),
        (None, Some("b"), Some("b"), [200, 200, 200]),
        (Some("a"), Some("b"), Some("a"), [200, 401, 200]),
        (Some("a"), Some("b"), Some("b"), [401, 200, 401]),
    ] {
        let server = start(api, admin).await;
        let found = opened(&server, key).await;
        assert_eq!(
            found, expected,
            "--api-key {api:?} --admin-api-key {admin:?}, {key:?}"
        );
    }
}

#[tokio::test]
async fn without_a_key_there_is_health_and_nothing_else() {
    let server = start(Some("a"), None).await;
    let client = server.client();
    let denied = client.get("/model_info").await;
    assert_eq!(
        (denied.status, denied.json()),
        (401, json!({"error": "Unauthorized"}))
    );
    assert_eq!(client.get("/health").await.status, 200);
    for path in [
        "/health_generate",
        "/healthy",
        "/metrics",
        "/metrics/",
        "/v1/models",
        "/server_info",
        "/openapi.json",
        "/nowhere",
    ] {
        assert_eq!(client.get(path).await.status, 401, "{path}");
    }
}

#[tokio::test]
async fn metrics_can_be_opened_and_name_no_folder() {
    let setup = Setup::with(|setup| {
        setup.server.keys.api = Some("a".to_owned());
        setup.server.keys.public_metrics = true;
        setup.server.served_model_name = "/srv/models/tiny".to_owned();
    });
    let server = setup.start_with_key("a").await;
    let metrics = server.client().get("/metrics").await;
    assert_eq!(metrics.status, 200);
    assert!(
        metrics.body.contains("model_name=\"tiny\""),
        "{}",
        metrics.body
    );
    assert!(!metrics.body.contains("/srv"), "{}", metrics.body);
}
