use std::net::SocketAddr;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use protocol::sse::Decoder;
use serde_json::Value;

/// A client with a connection pool of its own.
#[derive(Clone)]
pub(crate) struct Client {
    inner: legacy::Client<HttpConnector, Full<Bytes>>,
    address: SocketAddr,
    key: Option<String>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.status, self.body))
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let inner = legacy::Client::builder(TokioExecutor::new()).build_http();
        Self {
            inner,
            address,
            key: None,
        }
    }

    /// The same, with a key.
    pub(crate) fn with_key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// Sends a request with a body of this type.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&str>,
        body: impl Into<Bytes>,
    ) -> Response<Incoming> {
        let kind = content_type.map(|kind| ("content-type", kind));
        self.send_with(method, path, kind.as_slice(), body).await
    }

    /// Sends a request with these headers.
    pub(crate) async fn send_with(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Response<Incoming> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address));
        for &(name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let request = request
            .body(Full::new(body.into()))
            .expect("the request is sound");
        self.inner
            .request(request)
            .await
            .expect("the server answers")
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        answer(self.send(Method::GET, path, None, "").await).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_text(path, &body.to_string()).await
    }

    pub(crate) async fn post_text(&self, path: &str, body: &str) -> Answer {
        let json = Some("application/json");
        answer(self.send(Method::POST, path, json, body.to_owned()).await).await
    }

    /// The events of a stream, one by one.
    pub(crate) async fn stream(&self, path: &str, body: &Value) -> Events {
        let json = Some("application/json");
        let response = self.send(Method::POST, path, json, body.to_string()).await;
        assert_eq!(response.status(), StatusCode::OK);
        let kind = response.headers()["content-type"]
            .to_str()
            .expect("headers are text");
        assert!(kind.starts_with("text/event-stream"), "{kind}");
        Events {
            body: response.into_body(),
            decoder: Decoder::default(),
        }
    }

    /// All events of a stream but the last, which must be `[DONE]`.
    pub(crate) async fn stream_all(&self, path: &str, body: &Value) -> Vec<Value> {
        let mut events = self.stream(path, body).await;
        let mut all = Vec::new();
        loop {
            match events.next().await.as_deref() {
                Some("[DONE]") => break,
                Some(data) => all.push(serde_json::from_str(data).expect("events are JSON")),
                None => panic!("the stream ended without [DONE]"),
            }
        }
        assert_eq!(events.next().await, None);
        all
    }

    pub(crate) async fn until_ready(&self) {
        while self.get("/ready").await.status != 200 {
            tokio::task::yield_now().await;
        }
    }
}

pub(crate) async fn answer(response: Response<Incoming>) -> Answer {
    let status = response.status().as_u16();
    let body = response
        .into_body()
        .collect()
        .await
        .expect("the answer is complete")
        .to_bytes();
    Answer {
        status,
        body: String::from_utf8(body.to_vec()).expect("answers are text"),
    }
}

/// A stream of events; dropping it closes the connection.
pub(crate) struct Events {
    body: Incoming,
    decoder: Decoder,
}

impl Events {
    /// The data of the next event.
    pub(crate) async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(event) = self.decoder.next_event().expect("events are short") {
                return Some(event.text().expect("events are text").to_owned());
            }
            let frame = self.body.frame().await?.expect("the stream goes on");
            if let Ok(data) = frame.into_data() {
                self.decoder.push(data);
            }
        }
    }
}
