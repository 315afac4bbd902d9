use std::any::Any;

use axum::extract::DefaultBodyLimit;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use http::StatusCode;
use serde_json::json;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::CorsLayer;

use crate::error::{ApiError, NativeError};
use crate::extract::MAX_BODY;
use crate::routes::{
    admin, chat, completions, generate, health, info, load, metrics, models, parse, profile,
    tokenize,
};
use crate::state::Shared;
use crate::{access_log, auth};

/// Every path we answer.
pub(crate) fn app(state: Shared) -> Router {
    let mut app = Router::new()
        .route(
            "/generate",
            post(generate::generate).put(generate::generate),
        )
        .route("/v1/completions", post(completions::completions))
        .route("/v1/chat/completions", post(chat::chat))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*id}", get(models::one))
        .route("/tokenize", post(tokenize::tokenize))
        .route("/v1/tokenize", post(tokenize::tokenize))
        .route("/detokenize", post(tokenize::detokenize))
        .route("/v1/detokenize", post(tokenize::detokenize))
        .route("/parse_function_call", post(parse::parse_function_call))
        .route("/separate_reasoning", post(parse::separate_reasoning))
        .route("/health", get(health::health))
        .route("/health_generate", get(health::health_generate))
        .route("/ready", get(health::ready))
        .route("/ping", get(health::ping))
        .route("/model_info", get(info::model_info))
        .route("/get_model_info", get(info::get_model_info))
        .route("/server_info", get(info::server_info))
        .route("/get_server_info", get(info::get_server_info))
        .route("/get_load", get(load::get_load))
        .route("/v1/loads", get(load::loads))
        .route(
            "/flush_cache",
            get(admin::flush_cache).post(admin::flush_cache),
        )
        .route("/abort_request", post(admin::abort_request))
        .route("/freeze_gc", get(admin::freeze_gc).post(admin::freeze_gc))
        .route(
            "/start_profile",
            get(profile::start_profile).post(profile::start_profile),
        )
        .route(
            "/stop_profile",
            get(profile::stop_profile).post(profile::stop_profile),
        );
    if state.config.metrics {
        app = app.route("/metrics", get(metrics::metrics));
    }
    app.fallback(|| async { detail(StatusCode::NOT_FOUND, "Not Found") })
        .method_not_allowed_fallback(|| async {
            detail(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed")
        })
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(CatchPanicLayer::custom(|panic: Box<dyn Any + Send>| {
            broken(&*panic)
        }))
        .layer(middleware::from_fn_with_state(state.clone(), auth::check))
        .layer(CorsLayer::very_permissive())
        .layer(middleware::from_fn(access_log::log))
        .with_state(state)
}

fn detail(status: StatusCode, text: &str) -> Response {
    (status, Json(json!({"detail": text}))).into_response()
}

/// A handler that panicked has broken its own request and nothing else.
fn broken(panic: &(dyn Any + Send)) -> Response {
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    tracing::error!("a request handler panicked: {message}");
    NativeError::from(ApiError::Failed("the server failed to answer".to_owned())).into_response()
}
