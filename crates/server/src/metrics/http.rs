use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::Method;
use hyper::body::{Frame, SizeHint};

use super::Exposition;
use crate::state::Shared;

/// Requests by route and method, and answers by status.
#[derive(Debug, Default)]
pub(crate) struct HttpRequests(Mutex<BTreeMap<Kind, Counts>>);

/// A route and a method: both from small sets, whatever clients write.
type Kind = (String, &'static str);

#[derive(Debug, Default)]
struct Counts {
    active: u64,
    total: u64,
    answers: BTreeMap<u16, u64>,
}

/// What counts for requests that no route takes.
const ELSEWHERE: &str = "elsewhere";

impl HttpRequests {
    fn table(&self) -> MutexGuard<'_, BTreeMap<Kind, Counts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(self: &Arc<Self>, kind: Kind) -> Active {
        let mut table = self.table();
        let counts = table.entry(kind.clone()).or_default();
        counts.active += 1;
        counts.total += 1;
        Active {
            requests: Arc::clone(self),
            kind,
        }
    }

    /// SGLang's three families.
    pub(super) fn write(&self, out: &mut Exposition) {
        let table = self.table();
        let rows = |value: fn(&Counts) -> u64| {
            let row = move |((endpoint, method), counts): (&Kind, &Counts)| {
                let labels = vec![
                    ("endpoint", endpoint.clone()),
                    ("method", (*method).to_owned()),
                ];
                (labels, value(counts))
            };
            table.iter().map(row).collect::<Vec<_>>()
        };
        out.labelled(
            ("http_requests_total", "counter"),
            "Total number of HTTP requests by endpoint and method.",
            rows(|counts| counts.total),
        );
        out.labelled(
            ("http_requests_active", "gauge"),
            "Number of HTTP requests whose answer is not complete.",
            rows(|counts| counts.active),
        );
        let answers = table.iter().flat_map(|((endpoint, method), counts)| {
            counts.answers.iter().map(move |(status, count)| {
                let labels = vec![
                    ("endpoint", endpoint.clone()),
                    ("status_code", status.to_string()),
                    ("method", (*method).to_owned()),
                ];
                (labels, *count)
            })
        });
        out.labelled(
            ("http_responses_total", "counter"),
            "Total number of HTTP responses by endpoint and status code.",
            answers.collect(),
        );
    }
}

/// A request whose answer is not complete.
struct Active {
    requests: Arc<HttpRequests>,
    kind: Kind,
}

impl Active {
    fn answered(&self, status: u16) {
        let mut table = self.requests.table();
        let counts = table.entry(self.kind.clone()).or_default();
        *counts.answers.entry(status).or_default() += 1;
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        if let Some(counts) = self.requests.table().get_mut(&self.kind) {
            counts.active -= 1;
        }
    }
}

/// Counts a request until its answer is complete, or its client is gone.
pub(crate) async fn count_request(
    State(state): State<Shared>,
    request: Request,
    next: Next,
) -> Response {
    if !state.config.metrics {
        return next.run(request).await;
    }
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or(ELSEWHERE, MatchedPath::as_str).to_owned();
    let active = state.metrics.http.begin((route, name(request.method())));
    let response = next.run(request).await;
    active.answered(response.status().as_u16());
    response.map(|body| {
        Body::new(Counted {
            body,
            _active: active,
        })
    })
}

fn name(method: &Method) -> &'static str {
    let known = [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::HEAD,
        Method::OPTIONS,
        Method::PATCH,
    ];
    let names = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"];
    let place = known.iter().position(|known| known == method);
    place.map_or("OTHER", |place| names[place])
}

/// The body of an answer that counts as active until it is sent.
struct Counted {
    body: Body,
    _active: Active,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
