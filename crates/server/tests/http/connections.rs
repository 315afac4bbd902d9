//! Connections that say little: closed when they take too long, and nobody else's business.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::time::Duration;

use axum::body::Bytes;
use http::Request;
use http_body_util::Full;
use hyper::client::conn::http2::handshake;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use testkit::fake_executor::FakeExecutor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Gate, Setup, TestServer};

const HEAD_TIME: Duration = Duration::from_millis(200);
/// How clients of HTTP/2 begin, with settings that say nothing.
const PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// Longer than any head may take.
const LONG: Duration = Duration::from_secs(10);

async fn start(change: impl FnOnce(&mut Setup)) -> TestServer {
    let setup = Setup::with(|setup| {
        setup.server.limits.head_time = HEAD_TIME;
        change(setup);
    });
    setup.start().await
}

/// Waits until the server closes the connection, whatever it says before.
async fn until_closed(connection: &mut TcpStream) {
    let mut heard = Vec::new();
    let read = tokio::time::timeout(LONG, connection.read_to_end(&mut heard)).await;
    // A connection may also be reset.
    let _ = read.expect("the server closes it");
}

#[tokio::test]
async fn heads_that_never_end_close_their_connection_and_no_other() {
    let server = start(|_| {}).await;
    let mut open = Vec::new();
    for words in [
        "",
        "P",
        "PRI * HTTP/2.0\r\n",
        PREFACE,
        "GET /ping HTTP/1.1\r\nhost: localhost\r\n",
        "POST",
    ] {
        let mut connection = TcpStream::connect(server.address).await.unwrap();
        connection.write_all(words.as_bytes()).await.unwrap();
        open.push(connection);
    }
    assert_eq!(server.client().get("/ping").await.status, 200);
    for mut connection in open {
        until_closed(&mut connection).await;
    }
    assert_eq!(server.client().get("/ping").await.status, 200);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_connection_is_kept_for_more_requests_until_it_is_idle_too_long() {
    let server = start(|_| {}).await;
    let mut connection = TcpStream::connect(server.address).await.unwrap();
    for _ in 0..2 {
        let request = b"GET /ping HTTP/1.1\r\nhost: localhost\r\n\r\n";
        connection.write_all(request).await.unwrap();
        let mut words = [0; 12];
        connection.read_exact(&mut words).await.unwrap();
        assert_eq!(&words, b"HTTP/1.1 200");
        while connection.read_u8().await.unwrap() != b'\n' {}
        tokio::time::sleep(HEAD_TIME / 4).await;
        let mut rest = [0; 1024];
        let _ = connection.try_read(&mut rest);
    }
    until_closed(&mut connection).await;
    server.stop().await.unwrap();
}

#[tokio::test]
async fn an_answer_may_take_longer_than_a_head() {
    let (gate, model) = Gate::new();
    let server = start(|setup| setup.executor = FakeExecutor::new(model)).await;
    let client = server.client();
    let body = json!({"text": "say:late\n", "sampling_params": {"max_new_tokens": 8}});
    let answer = client.post("/generate", &body);
    let (answer, ()) = tokio::join!(answer, async {
        tokio::time::sleep(3 * HEAD_TIME).await;
        drop(gate);
    });
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["text"], "late");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_client_of_http2_that_is_still_there_may_wait_and_be_idle() {
    let (gate, model) = Gate::new();
    let server = start(|setup| setup.executor = FakeExecutor::new(model)).await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let connected = handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut client, connection) = connected.unwrap();
    let connection = tokio::spawn(connection);
    let body = json!({"text": "say:late\n", "sampling_params": {"max_new_tokens": 8}});
    let request = Request::post("http://localhost/generate")
        .header("content-type", "application/json")
        .body(Full::<Bytes>::from(body.to_string()))
        .unwrap();
    let (answer, ()) = tokio::join!(client.send_request(request), async {
        tokio::time::sleep(3 * HEAD_TIME).await;
        drop(gate);
    });
    assert_eq!(answer.unwrap().status(), 200);
    tokio::time::sleep(3 * HEAD_TIME).await;
    let ping = Request::get("http://localhost/ping")
        .body(Full::default())
        .unwrap();
    assert_eq!(client.send_request(ping).await.unwrap().status(), 200);
    drop(client);
    connection.await.unwrap().unwrap();
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_server_stops_at_once_though_connections_have_said_nothing() {
    let server = Setup::default().start().await;
    let silent = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(server.client().get("/ping").await.status, 200);
    let stopped = tokio::time::timeout(Duration::from_secs(1), server.stop()).await;
    stopped.expect("nobody is waited for").unwrap();
    drop(silent);
}

/// A frame of HTTP/2 without its payload's meaning.
fn frame(kind: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let head = [0, 0, payload.len() as u8, kind, 0, 0, 0, 0, stream];
    [&head, payload].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http2_connections_that_flood_are_closed_and_no_other() {
    let server = Setup::default().start().await;
    let floods = [
        frame(6, 0, &[0; 8]),
        frame(4, 0, &[]),
        frame(2, 1, &[0, 0, 0, 3, 0]),
        frame(8, 0, &[0, 0, 0, 1]),
        frame(77, 0, &[]),
    ];
    for flood in floods {
        let connection = TcpStream::connect(server.address).await.unwrap();
        let (mut answers, mut words) = connection.into_split();
        let closed = tokio::spawn(async move {
            let mut heard = [0; 4096];
            while matches!(answers.read(&mut heard).await, Ok(1..)) {}
        });
        let kind = flood[3];
        let many = flood.repeat(100);
        words.write_all(PREFACE.as_bytes()).await.unwrap();
        let sending =
            async { while words.write_all(&many).await.is_ok() && !closed.is_finished() {} };
        let sent = tokio::time::timeout(LONG, sending).await;
        sent.unwrap_or_else(|_| panic!("frames of kind {kind} are taken without end"));
        closed.await.unwrap();
    }
    assert_eq!(server.client().get("/ping").await.status, 200);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_taken_back_at_once_close_their_connection() {
    let server = Setup::default().start().await;
    let connection = TcpStream::connect(server.address).await.unwrap();
    let (mut answers, mut words) = connection.into_split();
    let closed = tokio::spawn(async move {
        let mut heard = [0; 4096];
        while matches!(answers.read(&mut heard).await, Ok(1..)) {}
    });
    words.write_all(PREFACE.as_bytes()).await.unwrap();
    // GET http://localhost/ in HPACK.
    let head = [&[0x82, 0x86, 0x84, 0x41, 9], &b"localhost"[..]].concat();
    let sending = async {
        for stream in (1_u32..).step_by(2) {
            let id = stream.to_be_bytes();
            let asked = [&[0, 0, head.len() as u8, 1, 5], &id[..], &head].concat();
            let taken_back = [&[0, 0, 4, 3, 0], &id[..], &[0, 0, 0, 8]].concat();
            let both = [asked, taken_back].concat();
            if words.write_all(&both).await.is_err() || closed.is_finished() {
                return;
            }
        }
    };
    let sent = tokio::time::timeout(LONG, sending).await;
    sent.expect("they are taken without end");
    assert_eq!(server.client().get("/ping").await.status, 200);
    server.stop().await.unwrap();
}

/// The status of what comes back for these words.
async fn status_of(connection: &mut TcpStream, words: &str) -> u16 {
    // A refused head may be answered before it was read.
    let _ = connection.write_all(words.as_bytes()).await;
    let mut line = [0; 12];
    connection.read_exact(&mut line).await.unwrap();
    let line = std::str::from_utf8(&line).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn heads_beyond_reason_are_refused() {
    let server = Setup::default().start().await;
    for headers in [
        format!("x: {}\r\n", "y".repeat(70 << 10)),
        "x: y\r\n".repeat(200),
    ] {
        let mut connection = TcpStream::connect(server.address).await.unwrap();
        let words = format!("GET /ping HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
        assert_eq!(status_of(&mut connection, &words).await, 431);
    }
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_one_that_closes() {
    let setup = Setup::with(|setup| setup.server.limits.connections = 2);
    let server = setup.launch().await.unwrap();
    let ping = "GET /ping HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut connection = TcpStream::connect(server.address).await.unwrap();
        assert_eq!(status_of(&mut connection, ping).await, 200);
        open.push(connection);
    }
    let mut waiting = TcpStream::connect(server.address).await.unwrap();
    waiting.write_all(ping.as_bytes()).await.unwrap();
    let mut word = [0; 1];
    let early = tokio::time::timeout(HEAD_TIME, waiting.read(&mut word)).await;
    assert!(early.is_err(), "a third connection is served");
    drop(open.pop());
    waiting.read_exact(&mut word).await.unwrap();
    assert_eq!(&word, b"H");
    server.stop().await.unwrap();
}
