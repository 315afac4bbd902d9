//! Health, which must not cost what it watches.

use std::time::Duration;

use axum::body::Bytes;
use futures_util::future::join_all;
use http::Request;
use http_body_util::Full;
use hyper::client::conn::http2::handshake;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use server::HealthCheck;
use testkit::fake_executor::FakeExecutor;
use tokio::net::TcpStream;

use crate::harness::{Gate, Setup, TestServer, start, start_gated};

/// Tokens that were generated, once there are some: they are counted a moment after they are sent.
async fn generated(server: &TestServer) -> u64 {
    loop {
        let tokens = server.engine.stats().scheduler.generated_tokens;
        if tokens > 0 {
            return tokens;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_healthy_server_says_so_in_every_way() {
    let server = start().await;
    for path in ["/health", "/health_generate", "/ready", "/ping"] {
        let answer = server.client().get(path).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, ""), "{path}");
    }
}

#[tokio::test]
async fn health_costs_the_engine_nothing_unless_that_is_wanted() {
    // No step ever ends.
    let (_gate, server) = start_gated().await;
    for _ in 0..64 {
        assert_eq!(server.client().get("/health").await.status, 200);
    }
    let now = server.engine.stats().scheduler;
    assert_eq!((now.steps, now.waiting, now.running), (0, 0, 0));
    let setup = Setup::with(|setup| {
        setup.server.health = HealthCheck::Generate(Duration::from_secs(20));
    });
    let server = setup.start().await;
    assert_eq!(server.client().get("/health").await.status, 200);
    assert_eq!(generated(&server).await, 1);
}

#[tokio::test]
async fn all_who_ask_for_a_token_of_health_share_one() {
    let (gate, server) = start_gated().await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let connected = handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (client, connection) = connected.unwrap();
    let connection = tokio::spawn(connection);
    let ask = |path: &str| {
        let request = Request::get(format!("http://localhost{path}"));
        let request = request.body(Full::<Bytes>::default()).unwrap();
        client.clone().send_request(request)
    };
    let asking = (0..64).map(|_| tokio::spawn(ask("/health_generate")));
    let asking: Vec<_> = asking.collect();
    // Requests of one connection begin in their order.
    assert_eq!(ask("/ping").await.unwrap().status(), 200);
    while server.engine.stats().scheduler.running == 0 {
        tokio::task::yield_now().await;
    }
    let now = server.engine.stats().scheduler;
    assert_eq!((now.running, now.waiting), (1, 0));
    gate.open_for(1);
    for answer in join_all(asking).await {
        assert_eq!(answer.unwrap().unwrap().status(), 200);
    }
    assert_eq!(generated(&server).await, 1);
    connection.abort();
}

#[tokio::test]
async fn a_token_of_health_takes_no_place_in_the_queue() {
    let setup = Setup::with(|setup| setup.engine.max_waiting = 0);
    let server = setup.start().await;
    let client = server.client();
    assert_eq!(client.get("/health_generate").await.status, 200);
    assert_eq!(
        client.post("/generate", &json!({"text": "a"})).await.status,
        503
    );
}

#[tokio::test]
async fn an_engine_that_does_nothing_is_not_well() {
    let (gate, model) = Gate::new();
    let setup = Setup::with(|setup| {
        setup.executor = FakeExecutor::new(model);
        setup.server.health = HealthCheck::Alive(Duration::from_millis(200));
    });
    let server = setup.start().await;
    assert_eq!(server.client().get("/health_generate").await.status, 503);
    drop(gate);
    while server.client().get("/health_generate").await.status != 200 {
        tokio::task::yield_now().await;
    }
}
