//! What the server may be called, and which pages may ask it.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use hyper::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Setup, TestServer, answer, start};

/// The status and the text of what comes back for these words.
async fn said(server: &TestServer, words: &str) -> (u16, String) {
    let mut connection = TcpStream::connect(server.address).await.unwrap();
    connection.write_all(words.as_bytes()).await.unwrap();
    let mut heard = String::new();
    connection.read_to_string(&mut heard).await.unwrap();
    let status = heard.split(' ').nth(1).expect("a status").parse();
    (status.expect("a number"), heard)
}

async fn status_with(server: &TestServer, headers: &[(&str, &str)]) -> u16 {
    let client = server.client();
    let sent = client
        .send_with(Method::POST, "/flush_cache", headers, "")
        .await;
    answer(sent).await.status
}

#[tokio::test]
async fn a_request_names_the_server_once() {
    let server = start().await;
    let close = "connection: close\r\n\r\n";
    for (head, expected) in [
        ("GET /ping HTTP/1.1\r\nhost: localhost\r\n", 200),
        ("GET /ping HTTP/1.0\r\n", 200),
        ("GET /ping HTTP/1.1\r\n", 400),
        (
            "GET /ping HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n",
            400,
        ),
        (
            "GET /ping HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n",
            400,
        ),
        (
            "GET /ping HTTP/1.0\r\nhost: localhost\r\nhost: localhost\r\n",
            400,
        ),
        ("GET /ping HTTP/1.1\r\nhost: a b\r\n", 400),
        ("GET /ping HTTP/1.1\r\nhost:\r\n", 400),
    ] {
        let (status, heard) = said(&server, &format!("{head}{close}")).await;
        assert_eq!(status, expected, "{head}{heard}");
    }
}

#[tokio::test]
async fn a_name_that_was_made_to_point_here_is_not_answered() {
    let server = start().await;
    let foreign =
        "GET /server_info HTTP/1.1\r\nhost: evil.example:30000\r\nconnection: close\r\n\r\n";
    let (status, heard) = said(&server, foreign).await;
    assert_eq!(status, 403);
    let message = "the server is not called \\\"evil.example\\\"; --allowed-hosts lists the names that it may be called by";
    assert!(heard.contains(message), "{heard}");
    let whole = "GET http://evil.example/server_info HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert_eq!(said(&server, whole).await.0, 403);
    let setup = Setup::with(|setup| setup.server.allowed.hosts = vec!["evil.example".to_owned()]);
    let server = setup.start().await;
    assert_eq!(said(&server, foreign).await.0, 200);
}

#[tokio::test]
async fn pages_of_others_may_not_ask_a_server_of_this_machine() {
    let server = start().await;
    let page = ("origin", "http://page.example");
    assert_eq!(status_with(&server, &[page]).await, 403);
    assert_eq!(
        status_with(&server, &[page, ("content-type", "text/plain")]).await,
        403
    );
    assert_eq!(status_with(&server, &[("origin", "null")]).await, 403);
    assert_eq!(
        status_with(&server, &[("sec-fetch-site", "cross-site")]).await,
        403
    );
    assert_eq!(status_with(&server, &[]).await, 200);
    assert_eq!(
        status_with(&server, &[("origin", "http://localhost:3000")]).await,
        200
    );
    let setup =
        Setup::with(|setup| setup.server.allowed.origins = vec!["http://page.example".to_owned()]);
    let server = setup.start().await;
    assert_eq!(status_with(&server, &[page]).await, 200);
    assert_eq!(
        status_with(&server, &[("origin", "http://other.example")]).await,
        403
    );
}

/// What a browser is told that asks before it asks.
async fn preflight(server: &TestServer, origin: &str) -> (u16, Option<String>) {
    let headers = [
        ("origin", origin),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization"),
    ];
    let client = server.client();
    let sent = client
        .send_with(Method::OPTIONS, "/v1/completions", &headers, "")
        .await;
    let text = |name: &str| {
        let value = sent.headers().get(name)?;
        Some(value.to_str().expect("text").to_owned())
    };
    assert_eq!(text("access-control-allow-credentials"), None);
    let allowed = text("access-control-allow-origin");
    if allowed.is_some() {
        assert_eq!(
            text("access-control-allow-headers").as_deref(),
            Some("authorization")
        );
        assert_eq!(
            text("access-control-allow-methods").as_deref(),
            Some("POST")
        );
    }
    (sent.status().as_u16(), allowed)
}

#[tokio::test]
async fn browsers_are_told_whose_pages_may_read_the_answers() {
    let server = start().await;
    let local = "http://localhost:3000";
    assert_eq!(
        preflight(&server, local).await,
        (200, Some(local.to_owned()))
    );
    assert_eq!(preflight(&server, "http://page.example").await, (403, None));
    let setup = Setup::with(|setup| setup.server.allowed.origins = vec!["*".to_owned()]);
    let server = setup.start().await;
    let anybody = (200, Some("*".to_owned()));
    assert_eq!(preflight(&server, "http://page.example").await, anybody);
}

#[tokio::test]
async fn elsewhere_than_on_loopback_any_name_and_any_page_may_ask() {
    let setup = Setup::with(|setup| setup.server.host = "0.0.0.0".to_owned());
    let mut server = setup.launch().await.unwrap();
    server.address.set_ip([127, 0, 0, 1].into());
    server.client().until_ready().await;
    let headers = [("host", "chat.example"), ("origin", "https://page.example")];
    assert_eq!(status_with(&server, &headers).await, 200);
    let anybody = (200, Some("*".to_owned()));
    assert_eq!(preflight(&server, "https://page.example").await, anybody);
    let body = json!({"text": "say:ok\n"});
    assert_eq!(server.client().post("/generate", &body).await.status, 200);
}
