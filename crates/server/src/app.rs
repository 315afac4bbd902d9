use std::any::Any;
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router, middleware};
use http::{Method, Uri};
use tower_http::catch_panic::CatchPanicLayer;

use crate::auth::AccessRules;
use crate::budget::Budget;
use crate::config::OpenApi;
use crate::error::{ApiError, NativeError};
use crate::names::Names;
use crate::routes::elsewhere::Paths;
use crate::routes::openapi;
use crate::state::Shared;
use crate::table::routes;
use crate::{access_log, auth, budget, metrics, names, request_id};

/// Every path we answer, and their description, as a server on this machine alone or not.
pub(crate) fn app(state: Shared, on_loopback: bool) -> Router {
    let config = &state.config;
    let routes = routes(config);
    let mut app = Router::new();
    let mut paths = Vec::new();
    if config.openapi == OpenApi::Served {
        let document = openapi::document(&routes, &config.version, &config.keys);
        let document = Json(document);
        app = app.route("/openapi.json", get(async move || document.clone()));
        paths.push(("/openapi.json", vec![Method::GET]));
    }
    let rules = Arc::new(AccessRules::new(config.keys.clone(), &routes));
    let names = Arc::new(Names::new(&config.allowed, on_loopback));
    let budget = Arc::new(Budget::new(config.limits.body_bytes));
    for route in routes {
        app = app.route(route.path, route.router);
        paths.push((route.path, route.methods));
    }
    let elsewhere = Arc::new(Paths(paths));
    let paths = Arc::clone(&elsewhere);
    app.fallback(async move |uri: Uri| elsewhere.elsewhere(&uri))
        .method_not_allowed_fallback(async move |method: Method, uri: Uri| {
            paths.other_method(&method, &uri)
        })
        .layer(CatchPanicLayer::custom(|panic: Box<dyn Any + Send>| {
            broken(&*panic)
        }))
        .layer(middleware::from_fn_with_state(budget, budget::share))
        .layer(middleware::from_fn_with_state(
            state.clone(),
            metrics::count_request,
        ))
        .layer(middleware::from_fn_with_state(rules, auth::check))
        .layer(names.cors())
        .layer(middleware::from_fn_with_state(names, names::check))
        .layer(middleware::from_fn(access_log::log))
        .layer(middleware::from_fn(request_id::name_answer))
        .with_state(state)
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
