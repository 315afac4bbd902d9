use axum::Json;
use axum::extract::State;
use engine::{Measured, Spread, StepFloor, StepTimes};
use protocol::native::ModelInfo;
use serde_json::{Map, Value, json};

use crate::state::{self, Shared};

/// `/model_info`
pub(crate) async fn model_info(State(state): State<Shared>) -> Json<ModelInfo> {
    let model = &state.config.model;
    Json(ModelInfo {
        model_path: model.model_path.clone(),
        tokenizer_path: model.tokenizer_path.clone(),
        is_generation: true,
        preferred_sampling_params: model.preferred_sampling_params.clone(),
        weight_version: model.weight_version.clone(),
        has_image_understanding: false,
        has_audio_understanding: false,
        model_type: model.model_type.clone(),
        architectures: (!model.architectures.is_empty()).then(|| model.architectures.clone()),
    })
}

/// `/get_model_info`, as `/model_info` was called before.
pub(crate) async fn get_model_info(state: State<Shared>) -> Json<ModelInfo> {
    tracing::warn!(
        "Endpoint '/get_model_info' is deprecated and will be removed in a future version. \
         Please use '/model_info' instead."
    );
    model_info(state).await
}

/// `/server_info`
pub(crate) async fn server_info(State(state): State<Shared>) -> Json<Value> {
    let mut info = state.config.server_args.clone();
    let mut internal = info.clone();
    internal.extend(engine_state(&state));
    info.extend(limits(&state));
    info.insert("internal_states".to_owned(), json!([internal]));
    info.insert("version".to_owned(), json!(state.config.version));
    Json(Value::Object(info))
}

/// `/get_server_info`, as `/server_info` was called before.
pub(crate) async fn get_server_info(state: State<Shared>) -> Json<Value> {
    tracing::warn!(
        "Endpoint '/get_server_info' is deprecated and will be removed in a future version. \
         Please use '/server_info' instead."
    );
    server_info(state).await
}

fn limits(state: &state::State) -> Map<String, Value> {
    let longest = state.engine.config().scheduler.max_sequence_tokens();
    let limits = json!({
        "max_total_num_tokens": state.room().tokens,
        "max_req_len": longest,
        "max_req_input_len": longest.saturating_sub(5),
        "max_running_requests": state.room().rows,
        "status": "ready",
        "startup_time": state.config.start_times.engine.as_secs_f64(),
    });
    members(limits)
}

fn engine_state(state: &state::State) -> Map<String, Value> {
    let stats = state.engine.stats();
    members(json!({
        "last_gen_throughput": stats.generation_throughput,
        "memory_usage": state.config.memory_usage,
        "num_running_reqs": stats.scheduler.running,
        "num_queue_reqs": stats.scheduler.waiting,
        "open_requests": state.admission.inside(),
        "open_sequences": state.running.count(),
        "step_times": step_times(&state.engine.step_times(), state.engine.config().floor),
    }))
}

/// Where the time of steps went: generating ones beside what memory allows, and the host's part.
fn step_times(times: &StepTimes, floor: Option<StepFloor>) -> Value {
    json!({
        "decode_last_interval": measured(&times.last_interval),
        "decode": measured(&times.decode),
        "host_ms": spread(&times.host),
        "jitter_ms": spread(&times.jitter),
        "floor": floor.map(|floor| json!({
            "weight_bytes": floor.weights,
            "kv_bytes_per_token": floor.token,
            "bandwidth_gb_per_s": floor.bandwidth / 1e9,
        })),
    })
}

fn measured(steps: &Measured) -> Value {
    let each = |seconds: f64| (steps.steps > 0).then(|| 1e3 * seconds / steps.steps as f64);
    let share = steps.share();
    json!({
        "steps": steps.steps,
        "measured_ms": each(steps.seconds),
        "floor_ms": share.and_then(|_| each(steps.floor_seconds)),
        "floor_over_measured": share,
    })
}

fn spread(times: &Spread) -> Value {
    let millis = |time: std::time::Duration| 1e3 * time.as_secs_f64();
    json!({
        "count": times.count(),
        "p50": millis(times.quantile(0.5)),
        "p99": millis(times.quantile(0.99)),
        "p99_9": millis(times.quantile(0.999)),
        "max": millis(times.longest()),
    })
}

fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
