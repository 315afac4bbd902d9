//! Bodies that come slowly, and too many at once.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Setup, TestServer, start_gated};

const BODY_TIME: Duration = Duration::from_millis(200);
/// Longer than any body may take here.
const LONG: Duration = Duration::from_secs(10);

/// A connection on which a body was announced.
async fn announce(server: &TestServer, length: usize) -> TcpStream {
    let mut connection = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST /generate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    connection
}

/// What the server says until it closes the connection.
async fn last_words(connection: &mut TcpStream) -> String {
    let mut heard = String::new();
    let read = tokio::time::timeout(LONG, connection.read_to_string(&mut heard));
    // A connection may also be reset.
    let _ = read.await.expect("the server closes it");
    heard
}

#[tokio::test]
async fn a_body_that_stops_coming_is_given_up() {
    let setup = Setup::with(|setup| setup.server.limits.body_time = BODY_TIME);
    let server = setup.start().await;
    for beginning in ["", "{\"text\": \"a"] {
        let mut connection = announce(&server, 1000).await;
        connection.write_all(beginning.as_bytes()).await.unwrap();
        let words = last_words(&mut connection).await;
        assert!(words.starts_with("HTTP/1.1 408 "), "{words}");
        let expected = format!(
            "the request body came too slowly: {} bytes so far",
            beginning.len()
        );
        assert!(words.contains(&expected), "{words}");
    }
}

#[tokio::test]
async fn a_body_that_trickles_is_given_up() {
    let setup = Setup::with(|setup| setup.server.limits.body_time = BODY_TIME);
    let server = setup.start().await;
    let connection = announce(&server, 1 << 20).await;
    let (mut answers, mut words) = connection.into_split();
    let trickle = tokio::spawn(async move {
        while words.write_all(b" ").await.is_ok() {
            tokio::time::sleep(BODY_TIME / 10).await;
        }
    });
    let mut line = [0; 12];
    let read = tokio::time::timeout(LONG, answers.read_exact(&mut line));
    read.await.expect("it is given up").unwrap();
    assert_eq!(&line, b"HTTP/1.1 408");
    trickle.abort();
}

#[tokio::test]
async fn bodies_in_flight_have_a_budget_that_small_ones_need_not_share_with_large_ones() {
    let setup = Setup::with(|setup| setup.server.limits.body_bytes = 1 << 20);
    let server = setup.start().await;
    let spaces = " ".repeat(300 << 10);
    let large = format!("{spaces}{}", json!({"text": "say:ok\n"}));
    let client = server.client();
    let (slow, refused) = loop {
        let mut slow = announce(&server, 700 << 10).await;
        let beginning = " ".repeat(690 << 10);
        slow.write_all(beginning.as_bytes()).await.unwrap();
        // The server reads that meanwhile.
        for _ in 0..50 {
            assert_eq!(client.get("/ping").await.status, 200);
        }
        let answer = client.post_text("/generate", &large).await;
        if answer.status != 200 {
            break (slow, answer);
        }
    };
    assert_eq!(refused.status, 503);
    let message = "the bodies of requests in flight have no more than 1048576 bytes together \
                   (--max-body-bytes-in-flight): try again later";
    assert_eq!(refused.json(), json!({"error": {"message": message}}));
    let small = client.post("/generate", &json!({"text": "say:ok\n"})).await;
    assert_eq!(small.status, 200, "{}", small.body);
    drop(slow);
    while client.post_text("/generate", &large).await.status != 200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_body_that_could_never_have_room_is_too_large() {
    let setup = Setup::with(|setup| setup.server.limits.body_bytes = 1 << 20);
    let server = setup.start().await;
    let answer = server
        .client()
        .post_text("/generate", &" ".repeat(1 << 20))
        .await;
    assert_eq!(answer.status, 413);
    assert!(
        answer.body.contains("larger than 851968 bytes"),
        "{}",
        answer.body
    );
}

#[tokio::test]
async fn a_client_that_waits_to_be_told_hears_at_once_that_its_body_is_too_large() {
    let (_gate, server) = start_gated().await;
    let mut connection = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /generate HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 99999999\r\n\r\n";
    connection.write_all(head.as_bytes()).await.unwrap();
    let words = last_words(&mut connection).await;
    assert!(words.starts_with("HTTP/1.1 413 "), "{words}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_bodies_and_probes_without_a_key_keep_nobody_from_being_served() {
    let setup = Setup::with(|setup| {
        setup.server.keys.api = Some("secret".to_owned());
        setup.server.limits.body_bytes = 4 << 20;
        setup.engine.max_waiting = 1;
    });
    let server = setup.start_with_key("secret").await;
    let mut slow = Vec::new();
    for _ in 0..40 {
        let mut connection = TcpStream::connect(server.address).await.unwrap();
        let head = "POST /generate HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer secret\r\ncontent-length: 1000000\r\n\r\n";
        connection.write_all(head.as_bytes()).await.unwrap();
        // What is refused is read and thrown away.
        connection
            .write_all(" ".repeat(900_000).as_bytes())
            .await
            .unwrap();
        slow.push(connection);
    }
    let probes: Vec<_> = (0..64)
        .map(|_| {
            let client = server.client();
            tokio::spawn(async move {
                loop {
                    assert_eq!(client.get("/health").await.status, 200);
                    assert_eq!(client.get("/health_generate").await.status, 401);
                }
            })
        })
        .collect();
    let client = server.client().with_key("secret");
    for _ in 0..10 {
        let body = json!({"text": "say:through\n", "stream": true});
        let events = client.stream_all("/generate", &body).await;
        assert_eq!(events.last().unwrap()["text"], "through");
    }
    assert_eq!(server.engine.stats().scheduler.finished, 10);
    for probe in probes {
        assert!(!probe.is_finished());
        probe.abort();
    }
    drop(slow);
}
