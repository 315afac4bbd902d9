//! Clients that leave, servers that stop, devices that break.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use server::{ServerError, Stopped, Warmup};
use testkit::fake_executor::FakeExecutor;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::{Gate, Setup, TestServer, start, start_gated};

/// Waits until nothing is left of any request.
async fn nothing_left(server: &TestServer) {
    loop {
        let info = server.client().get("/server_info").await.json();
        let now = server.engine.stats().scheduler;
        let state = &info["internal_states"][0];
        let open = (&state["open_requests"], &state["open_sequences"]);
        if open == (&json!(0), &json!(0)) && now.running == 0 && now.waiting == 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_takes_its_sequence_with_it() {
    let server = start().await;
    let body = json!({"text": "x", "stream": true, "sampling_params":
                      {"max_new_tokens": 500, "ignore_eos": true}});
    let mut events = server.client().stream("/generate", &body).await;
    events.next().await.unwrap();
    drop(events);
    nothing_left(&server).await;
}

#[tokio::test]
async fn a_client_that_leaves_before_its_answer_takes_its_sequence_with_it() {
    let (gate, server) = start_gated().await;
    let body = json!({"text": "x", "sampling_params": {"max_new_tokens": 500}});
    let client = server.client();
    gate.open_for(1);
    let asking = tokio::spawn(async move { client.post("/generate", &body).await });
    while server.engine.stats().scheduler.running == 0 {
        tokio::task::yield_now().await;
    }
    asking.abort();
    assert!(asking.await.is_err());
    loop {
        gate.open_for(1);
        let now = server.engine.stats().scheduler;
        if now.cancelled == 1 && now.running == 0 {
            break;
        }
        tokio::task::yield_now().await;
    }
    drop(gate);
    nothing_left(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_requests_half_of_which_disconnect_leave_nothing_behind() {
    let server = start().await;
    nothing_left(&server).await;
    let body = json!({"text": "x", "stream": true, "sampling_params": {"max_new_tokens": 40}});
    let tasks_before = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    for _ in 0..10 {
        let requests = (0..100).map(|number| {
            let (client, body) = (server.client(), body.clone());
            async move {
                let mut events = client.stream("/generate", &body).await;
                let mut seen = 0;
                while let Some(data) = events.next().await {
                    seen += 1;
                    if number % 2 == 0 {
                        return;
                    }
                    if data == "[DONE]" {
                        assert!(seen > 1);
                    }
                }
                assert!(seen > 1);
            }
        });
        join_all(requests).await;
    }
    nothing_left(&server).await;
    let now = server.engine.stats().scheduler;
    assert_eq!(now.used_tokens, 0);
    assert_eq!(now.finished + now.cancelled, 1000);
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    while tasks() > tasks_before {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_server_that_is_told_to_stop_answers_first() {
    let (gate, server) = start_gated().await;
    let client = server.client();
    gate.open_for(1);
    let mut events = client
        .stream("/generate", &json!({"text": "say:bye\n", "stream": true}))
        .await;
    events.next().await.unwrap();
    server.stopper.stop();
    while client.get("/ready").await.status != 503 {
        tokio::task::yield_now().await;
    }
    assert_eq!(client.get("/health").await.status, 503);
    let refused = client.post("/generate", &json!({"text": "a"})).await;
    assert_eq!(refused.status, 503);
    drop(gate);
    let mut last = String::new();
    let mut text = Value::Null;
    while let Some(data) = events.next().await {
        if data != "[DONE]" {
            text = serde_json::from_str::<Value>(&data).unwrap()["text"].clone();
        }
        last = data;
    }
    assert_eq!((last.as_str(), text), ("[DONE]", json!("bye")));
    assert_eq!(server.serving.await.unwrap().unwrap(), Stopped::Drained);
}

#[tokio::test]
async fn a_server_told_twice_does_not_wait() {
    let (gate, server) = start_gated().await;
    gate.open_for(1);
    let body = json!({"text": "x", "stream": true});
    let mut events = server.client().stream("/generate", &body).await;
    events.next().await.unwrap();
    server.stopper.stop();
    server.stopper.stop();
    assert_eq!(server.serving.await.unwrap().unwrap(), Stopped::AtOnce);
    drop(gate);
}

#[tokio::test]
async fn an_idle_server_stops_though_clients_keep_their_connections() {
    let server = start().await;
    let client = server.client();
    assert_eq!(client.get("/ping").await.status, 200);
    assert_eq!(server.stop().await.unwrap(), Stopped::Drained);
    drop(client);
}

/// What `/health` answers, as long as somebody does.
async fn health_of(address: SocketAddr) -> Option<String> {
    let mut connection = TcpStream::connect(address).await.ok()?;
    let request = b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    connection.write_all(request).await.ok()?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.ok()?;
    (!answer.is_empty()).then_some(answer)
}

#[tokio::test]
async fn a_lost_device_breaks_its_requests_and_ends_the_server() {
    let executor = FakeExecutor::new(crate::harness::speak).lost_after(3);
    let server = Setup::with(|setup| setup.executor = executor).start().await;
    let client = server.client();
    let body = json!({"text": "x", "stream": true});
    let events = client.stream_all("/generate", &body).await;
    let error = events.last().unwrap()["error"]["message"].as_str().unwrap();
    assert!(error.contains("told to break"), "{error}");
    // until it is gone, and never fine again
    while let Some(health) = health_of(server.address).await {
        assert!(health.starts_with("HTTP/1.1 503"), "{health}");
    }
    let ended = server.serving.await.unwrap();
    assert!(matches!(ended, Err(ServerError::EngineLost)), "{ended:?}");
}

#[tokio::test]
async fn a_device_that_hangs_ends_the_server_as_a_lost_one_does() {
    for is_draining in [false, true] {
        let (gate, model) = Gate::new();
        let setup = Setup::with(|setup| {
            setup.executor = FakeExecutor::new(model);
            setup.engine.watchdog = Some(Duration::from_millis(200));
        });
        let server = setup.start().await;
        let (client, stopper) = (server.client(), server.stopper);
        let body = json!({"text": "x", "stream": true});
        let mut events = client.stream("/generate", &body).await;
        if is_draining {
            stopper.stop();
        }
        let error = events.next().await.unwrap();
        assert!(error.contains("no step has come back for 200ms"), "{error}");
        while let Some(health) = health_of(server.address).await {
            assert!(health.starts_with("HTTP/1.1 503"), "{health}");
        }
        let ended = server.serving.await.unwrap();
        assert!(matches!(ended, Err(ServerError::EngineLost)), "{ended:?}");
        drop(gate);
    }
}

#[tokio::test]
async fn a_broken_request_is_an_error_and_a_broken_part_of_a_batch_is_a_part() {
    let lost = || FakeExecutor::new(crate::harness::speak).lost_after(8);
    let server = Setup::with(|setup| setup.executor = lost()).start().await;
    let answer = server
        .client()
        .post("/generate", &json!({"text": "x"}))
        .await;
    assert_eq!(answer.status, 500);
    let server = Setup::with(|setup| setup.executor = lost()).start().await;
    let body = json!({"text": ["say:ok\n", "x"]});
    let answer = server.client().post("/generate", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let answer = answer.json();
    assert_eq!(answer[0]["text"], "ok");
    assert_eq!(answer[0]["meta_info"]["finish_reason"]["type"], "stop");
    let reason = &answer[1]["meta_info"]["finish_reason"];
    assert_eq!(
        (&reason["type"], &reason["status_code"]),
        (&json!("abort"), &json!(500))
    );
}

#[tokio::test]
async fn a_batch_with_one_impossible_request_is_refused_whole() {
    let server = start().await;
    let body = json!({"input_ids": [[97], vec![97; 600]]});
    let answer = server.client().post("/generate", &body).await;
    assert_eq!(answer.status, 400);
    nothing_left(&server).await;
}

#[tokio::test]
async fn the_server_warms_itself_up_before_it_is_ready() {
    let server = Setup::with(|setup| setup.server.warmup = Warmup::Request)
        .start()
        .await;
    assert_eq!(server.engine.stats().scheduler.generated_tokens, 8);
    let server = Setup::with(|setup| {
        setup.server.warmup = Warmup::Request;
        setup.server.keys.api = Some("secret".to_owned());
        setup.text = None;
    });
    let server = server.start_with_key("secret").await;
    assert_eq!(server.engine.stats().scheduler.finished, 1);
}

#[tokio::test]
async fn a_failed_warm_up_ends_the_server() {
    let broken = FakeExecutor::new(crate::harness::speak).lost_after(0);
    let setup = Setup::with(|setup| {
        setup.server.warmup = Warmup::Request;
        setup.executor = broken;
    });
    let ended = setup.run_to_end().await;
    assert!(
        matches!(&ended, Err(ServerError::Warmup(text)) if text.contains("500")),
        "{ended:?}"
    );
}

#[tokio::test]
async fn a_taken_port_is_named() {
    let server = start().await;
    let port = server.address.port();
    let setup = Setup::with(|setup| setup.server.port = port);
    let error = setup.run_to_end().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot listen on 127.0.0.1:{port}")
    );
}
