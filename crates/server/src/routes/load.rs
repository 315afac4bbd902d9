use std::time::Instant;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use protocol::native::{Load, LoadsQuery};
use serde_json::json;

use crate::clock;
use crate::extract::NativeQuery;
use crate::metrics::{self, Exposition};
use crate::state::{self, Shared};

/// `/get_load`
pub(crate) async fn get_load(State(state): State<Shared>) -> Json<Vec<Load>> {
    let now = state.engine.stats().scheduler;
    Json(vec![Load {
        dp_rank: 0,
        num_reqs: now.running as usize + now.waiting,
        num_waiting_reqs: now.waiting,
        num_tokens: now.used_tokens as usize,
    }])
}

/// `/v1/loads`
pub(crate) async fn loads(
    State(state): State<Shared>,
    NativeQuery(query): NativeQuery<LoadsQuery>,
) -> Response {
    let figures = figures(&state);
    if query.format.as_deref() == Some("prometheus") {
        let mut out = Exposition::new("sglang_", &[("dp_rank", "0")]);
        for (name, value) in figures {
            out.gauge(name, name, value);
        }
        return ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], out.finish()).into_response();
    }
    let mut load = serde_json::Map::new();
    load.insert("dp_rank".to_owned(), json!(0));
    for (name, value) in figures {
        let is_count = name.starts_with("num_") || name.starts_with("max_");
        let value = if is_count {
            json!(value as u64)
        } else {
            json!(value)
        };
        load.insert(name.to_owned(), value);
    }
    Json(json!({
        "timestamp": clock::iso_now(),
        "version": state.config.version,
        "num_accelerators": 1,
        "loads": [load],
    }))
    .into_response()
}

fn figures(state: &state::State) -> [(&'static str, f64); 9] {
    let stats = state.engine.stats();
    let now = &stats.scheduler;
    let room = state.room();
    [
        ("num_running_reqs", f64::from(now.running)),
        ("num_waiting_reqs", now.waiting as f64),
        ("num_used_tokens", now.used_tokens as f64),
        ("max_total_num_tokens", room.tokens as f64),
        ("token_usage", now.token_usage()),
        ("gen_throughput", stats.throughput_at(Instant::now())),
        ("cache_hit_rate", now.cache_hit_rate()),
        (
            "utilization",
            f64::from(now.running) / f64::from(room.rows.max(1)),
        ),
        ("max_running_requests", f64::from(room.rows)),
    ]
}
