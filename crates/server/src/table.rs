//! The table of routes: everything that is answered except its own description.

use http::Method;
use protocol::native::{
    AbortRequest, DetokenizeRequest, GenerateRequest, ParseFunctionCallRequest,
    SeparateReasoningRequest, StartProfileRequest, TokenizeRequest,
};
use protocol::openai::{ChatRequest, CompletionRequest};

use crate::auth::Access;
use crate::config::ServerConfig;
use crate::route::{JSON, NATIVE_ERROR, OPENAI_ERROR, Parameter, Route, TEXT};
use crate::routes::{
    admin, chat, completions, generate, health, info, load, metrics, models, parse, profile,
    tokenize,
};

const GET: &[Method] = &[Method::GET];
const POST: &[Method] = &[Method::POST];
const PUT_TOO: &[Method] = &[Method::POST, Method::PUT];
const BOTH: &[Method] = &[Method::GET, Method::POST];

/// What a server with these settings answers.
pub(crate) fn routes(config: &ServerConfig) -> Vec<Route> {
    let mut routes = Vec::from(generation());
    routes.extend(text());
    routes.extend(state());
    routes.extend(control());
    if config.metrics {
        let metrics = Route::new(GET, "/metrics", metrics::metrics, "Metrics for Prometheus");
        routes.push(metrics.answers(&[TEXT]).open_to(Access::Metrics));
    }
    routes
}

fn generation() -> [Route; 3] {
    [
        Route::new(
            PUT_TOO,
            "/generate",
            generate::generate,
            "Continue texts or tokens",
        )
        .generates::<GenerateRequest>(NATIVE_ERROR),
        Route::new(
            POST,
            "/v1/completions",
            completions::completions,
            "Continue texts or tokens",
        )
        .generates::<CompletionRequest>(OPENAI_ERROR),
        Route::new(
            POST,
            "/v1/chat/completions",
            chat::chat,
            "Answer a conversation",
        )
        .generates::<ChatRequest>(OPENAI_ERROR),
    ]
}

fn text() -> Vec<Route> {
    let mut routes = Vec::new();
    for path in ["/tokenize", "/v1/tokenize"] {
        let route = Route::new(POST, path, tokenize::tokenize, "The tokens of texts");
        routes.push(route.reads::<TokenizeRequest>(NATIVE_ERROR));
    }
    for path in ["/detokenize", "/v1/detokenize"] {
        let route = Route::new(POST, path, tokenize::detokenize, "The texts of tokens");
        routes.push(route.reads::<DetokenizeRequest>(NATIVE_ERROR));
    }
    let calls = Route::new(
        POST,
        "/parse_function_call",
        parse::parse_function_call,
        "The calls in what a model said",
    );
    routes.push(calls.reads::<ParseFunctionCallRequest>(NATIVE_ERROR));
    let thinking = Route::new(
        POST,
        "/separate_reasoning",
        parse::separate_reasoning,
        "What a model thought and what it said",
    );
    routes.push(thinking.reads::<SeparateReasoningRequest>(NATIVE_ERROR));
    routes
}

fn state() -> Vec<Route> {
    let health = |route: Route| route.answers(&[]).fails(&[503], None);
    vec![
        health(Route::new(
            GET,
            "/health",
            health::health,
            "Whether requests are taken, or tokens generated where the settings say so",
        ))
        .open_to(Access::Open),
        health(Route::new(
            GET,
            "/health_generate",
            health::health_generate,
            "Whether tokens are generated",
        )),
        health(Route::new(
            GET,
            "/ready",
            health::ready,
            "Whether requests are taken",
        )),
        Route::new(GET, "/ping", health::ping, "Whether anybody is there").answers(&[]),
        Route::new(GET, "/v1/models", models::list, "The model"),
        Route::new(
            GET,
            "/v1/models/{*id}",
            models::one,
            "The model by its name",
        )
        .takes(&[MODEL])
        .fails(&[404], None),
        Route::new(GET, "/model_info", info::model_info, "Facts of the model"),
        Route::new(
            GET,
            "/get_model_info",
            info::get_model_info,
            "Deprecated: /model_info",
        ),
        Route::new(
            GET,
            "/server_info",
            info::server_info,
            "Settings, limits and the engine's state",
        ),
        Route::new(
            GET,
            "/get_server_info",
            info::get_server_info,
            "Deprecated: /server_info",
        ),
        Route::new(GET, "/get_load", load::get_load, "Requests and tokens now"),
        Route::new(GET, "/v1/loads", load::loads, "Requests and tokens now")
            .takes(&[LOAD_FORMAT])
            .answers(&[JSON, TEXT]),
    ]
}

fn control() -> [Route; 5] {
    [
        Route::new(
            BOTH,
            "/flush_cache",
            admin::flush_cache,
            "Forget cached prefixes; fails while requests run or wait",
        )
        .takes(&[FLUSH_WAIT])
        .answers(&[TEXT])
        .fails(&[400], None)
        .open_to(Access::Admin),
        Route::new(
            POST,
            "/abort_request",
            admin::abort_request,
            "End requests by name, or all",
        )
        .reads::<AbortRequest>(NATIVE_ERROR)
        .answers(&[])
        .open_to(Access::Admin),
        Route::new(BOTH, "/freeze_gc", admin::freeze_gc, "No effect")
            .answers(&[TEXT])
            .open_to(Access::Admin),
        Route::new(
            BOTH,
            "/start_profile",
            profile::start_profile,
            "Begin to record a trace; fails while one is recorded",
        )
        .reads::<StartProfileRequest>(NATIVE_ERROR)
        .answers(&[TEXT])
        .open_to(Access::Admin),
        Route::new(
            BOTH,
            "/stop_profile",
            profile::stop_profile,
            "Write the trace; fails where none is recorded",
        )
        .fails(&[400, 503], Some(NATIVE_ERROR))
        .answers(&[TEXT])
        .open_to(Access::Admin),
    ]
}

const MODEL: Parameter = Parameter {
    name: "id",
    place: "path",
    kind: "string",
    about: "The name that the model is served under.",
};

const LOAD_FORMAT: Parameter = Parameter {
    name: "format",
    place: "query",
    kind: "string",
    about: "json or prometheus.",
};

const FLUSH_WAIT: Parameter = Parameter {
    name: "timeout",
    place: "query",
    kind: "number",
    about: "Seconds to wait for the engine to be idle; a tenth when absent.",
};
