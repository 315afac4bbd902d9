//! `peregrine serve`: a model behind HTTP.

use std::io::{IsTerminal as _, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use flags::{Parsed, Positional, Takes, Value};
use hub::LocalModel;
use serde_json::{Map, json};
use server::{
    NativeStream, PrefixIsolation, RequestLog, ServerConfig, Stopped, TextPipeline, Warmup,
};
use tokio::runtime::Runtime;

use crate::args::{self, Notice, ServerArgs, ServerCommand};
use crate::device;
use crate::end::end_if_held_up;
use crate::env::Env;
use crate::failure::Failure;
use crate::front::Front;
use crate::heap;
use crate::launch::table;
use crate::logging::{self, Levels};
use crate::obtain::{Wanted, obtain};
use crate::opened::Opened;
use crate::parsers::Parsers;
use crate::print::print;
use crate::start::{Started, load_format, plan_on, quantization, start};
use crate::summary::{Reach, screen, tell};

pub(crate) const COMMAND: ServerCommand = ServerCommand {
    program: "peregrine serve",
    about: "Serves a model over HTTP with the native and OpenAI APIs. Flags are those of SGLang's \
            launch_server; unambiguous prefixes are enough.",
    positionals: &[Positional {
        name: "MODEL",
        takes: Takes::Maybe(""),
        help: "The same as --model-path.",
    }],
    own: &[],
};

/// The name of threads for long requests.
const ASIDE: &str = "aside";
/// How nice they are: a core that the engine wants too is theirs for a tenth of the time.
const YIELD: i32 = 10;
/// Values that are nobody's business.
const SECRETS: &[&str] = &["api-key", "admin-api-key", "ssl-keyfile-password"];

/// Runs the command until the server is told to stop.
pub(crate) fn run(args: &ServerArgs, env: &Env) -> Result<(), Failure> {
    heap::give_large_memory_back();
    let parsed = &args.parsed;
    let levels = Levels {
        all: parsed.text("log-level").unwrap_or("info"),
        access: parsed.text("log-level-http"),
        filter: env.log_filter.as_deref(),
    };
    logging::start(levels).map_err(Failure::Config)?;
    for note in &args.notes {
        tracing::info!("{note}");
    }
    let parsers = Parsers::of(parsed);
    let local = obtain(Wanted::from(parsed, word(parsed)), env).map_err(Failure::Config)?;
    if parsed.switch("show-config") {
        return print(&resolved(args, &local, env).map_err(Failure::Config)?);
    }
    let front = Front::of(parsed, env).map_err(Failure::Config)?;
    // SGLang's tools read this line from files and pipes; a person at a terminal reads the block below
    if stderr().is_terminal() {
        tracing::debug!("server_args=ServerArgs{}", echo(args, &local));
    } else {
        tracing::info!("server_args=ServerArgs{}", echo(args, &local));
    }
    if let Err(error) = bench::open_files::make_room() {
        tracing::warn!("there is room for fewer open files than wanted: {error}");
    }
    let started = start(args, &local, env).map_err(Failure::Config)?;
    let mut config = server_config(args, env, &local, &started, front);
    let notices = args.notices.iter().chain(&env.notices);
    let notices = notices.chain(&started.launch.notices);
    let idle = without_effect(notices.clone());
    let reach = Reach {
        host: &config.host,
        port: config.port,
        key: config.keys.api.is_some(),
        tls: config.tls.is_some(),
    };
    for line in screen(&config.served_model_name, &started, &reach) {
        tracing::info!("{line}");
    }
    tell(notices);
    config
        .server_args
        .insert("accepted_without_effect".into(), idle.into());
    serve(config, started, &parsers).map_err(Failure::Broken)
}

fn serve(config: ServerConfig, started: Started, parsers: &Parsers) -> anyhow::Result<()> {
    let text = started.language.map(|language| TextPipeline {
        tokenizer: language.tokenizer,
        template: language.template,
        reasoning: parsers.reasoning,
        tools: parsers.tools,
    });
    let runtime = runtime()?;
    let stopped = runtime.block_on(server::run(config, started.engine, text));
    // Nothing is served any more; what is left takes a moment, unless a driver hangs.
    end_if_held_up();
    match stopped? {
        Stopped::Drained => started.thread.stop().context("the engine broke"),
        Stopped::AtOnce => Ok(()),
    }
}

/// Threads that serve connections, and others aside that parse and encode long requests: one per core, as more would only
/// take turns, and these yield to the engine.
fn runtime() -> std::io::Result<Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let is_built = Arc::new(AtomicBool::new(false));
    let names = Arc::clone(&is_built);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(cores)
        // All threads that serve connections are named while the runtime is built.
        .thread_name_fn(move || {
            let is_aside = names.load(Ordering::Acquire);
            (if is_aside { ASIDE } else { "connections" }).to_owned()
        })
        .on_thread_start(|| {
            if std::thread::current().name() == Some(ASIDE) {
                // On Linux this is about the thread alone; one that may not yield works all the same.
                let _ = rustix::process::nice(YIELD);
            }
        })
        .build()?;
    is_built.store(true, Ordering::Release);
    Ok(runtime)
}

/// What would be served, and how.
fn resolved(args: &ServerArgs, local: &LocalModel, env: &Env) -> anyhow::Result<String> {
    let opened = Opened::open(&local.path, load_format(args), quantization(args))?;
    let device = device::open(&args.parsed, env, &opened.spec)?;
    let inventory = opened.inventory(device.as_ref());
    let launch = plan_on(&args.parsed, &opened, &inventory, device.info())?;
    launch.warn();
    let notices = args.notices.iter().chain(&env.notices);
    tell(notices.chain(&launch.notices));
    Ok(table(&launch.values))
}

/// The model that was named without a flag.
pub(crate) fn word(parsed: &Parsed) -> Option<&str> {
    parsed.words().first().map(String::as_str)
}

/// What clients call the model. Benchmarks read it from `/v1/models` and look for a tokenizer
/// there, so it is the path as it was asked for unless another name is given.
fn served_model_name<'a>(parsed: &'a Parsed, local: &'a LocalModel) -> &'a str {
    parsed
        .text("served-model-name")
        .or(Wanted::from(parsed, word(parsed)).model)
        .unwrap_or(&local.name)
}

/// The arguments that matter here and those that were given, as Python would write them.
fn echo(args: &ServerArgs, local: &LocalModel) -> String {
    let mut parsed = args.parsed.clone();
    parsed.set("model-path", Value::Text(local.path.display().to_string()));
    hide_secrets(&mut parsed);
    let shown = parsed.namespace(|flag| args::is_honoured(flag) || args.parsed.given(flag.name));
    shown.trim_start_matches("Namespace").to_owned()
}

fn hide_secrets(parsed: &mut Parsed) {
    for secret in SECRETS {
        if parsed.given(secret) {
            parsed.set(secret, Value::Text("***".to_owned()));
        }
    }
}

fn server_config(
    args: &ServerArgs,
    env: &Env,
    local: &LocalModel,
    started: &Started,
    front: Front,
) -> ServerConfig {
    let parsed = &args.parsed;
    let language = started.language.as_ref();
    let authors = parsed.text("sampling-defaults") == Some("model");
    let defaults = language
        .filter(|_| authors)
        .map(|language| language.sampling.clone());
    ServerConfig {
        host: front.host,
        port: front.port,
        tls: front.tls,
        keys: front.keys,
        allowed: front.allowed,
        limits: front.limits,
        profiles: front.profiles,
        served_model_name: served_model_name(parsed, local).to_owned(),
        model: model_facts(parsed, local, started, front.preferred_sampling_params),
        stream_interval: front.stream_interval,
        native_stream: native_stream(parsed),
        sampling_defaults: defaults.unwrap_or_default(),
        metrics: parsed.switch("enable-metrics"),
        openapi: env.openapi,
        cache_report: parsed.switch("enable-cache-report"),
        prefix_isolation: prefix_isolation(parsed),
        auto_truncate: parsed.switch("allow-auto-truncate"),
        request_log: if parsed.switch("log-requests") {
            RequestLog::Summary
        } else {
            RequestLog::Off
        },
        warmup: if parsed.switch("skip-server-warmup") {
            Warmup::Skip
        } else {
            Warmup::Request
        },
        health: env.health,
        server_args: server_args(args, local, started),
        memory_usage: memory_usage(started),
        start_times: started.times,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn prefix_isolation(parsed: &Parsed) -> PrefixIsolation {
    match parsed.text("prefix-cache-isolation") {
        Some("key") => PrefixIsolation::Key,
        Some("salt") => PrefixIsolation::Salt,
        _ => PrefixIsolation::None,
    }
}

fn model_facts(
    parsed: &Parsed,
    local: &LocalModel,
    started: &Started,
    preferred_sampling_params: Option<serde_json::Value>,
) -> server::ModelFacts {
    let tokenizer = started
        .language
        .as_ref()
        .map_or(&local.path, |language| &language.path);
    server::ModelFacts {
        model_path: local.path.display().to_string(),
        tokenizer_path: tokenizer.display().to_string(),
        model_type: Some(started.spec.model_type.to_owned()),
        architectures: vec![started.spec.architecture.to_owned()],
        weight_version: parsed
            .text("weight-version")
            .unwrap_or("default")
            .to_owned(),
        preferred_sampling_params,
    }
}

fn native_stream(parsed: &Parsed) -> NativeStream {
    if parsed.switch("incremental-streaming-output") {
        NativeStream::Incremental
    } else if parsed.switch("stream-output") {
        NativeStream::NewTokens
    } else {
        NativeStream::Cumulative
    }
}

/// Arguments as given, overlaid with what they were resolved to.
fn server_args(
    args: &ServerArgs,
    local: &LocalModel,
    started: &Started,
) -> Map<String, serde_json::Value> {
    let mut parsed = args.parsed.clone();
    hide_secrets(&mut parsed);
    let mut info = args::as_json(&parsed);
    for resolved in &started.launch.values {
        if resolved.value == "unlimited" {
            continue;
        }
        // numbers and lists as such
        let value = serde_json::from_str(&resolved.value);
        info.insert(
            resolved.name.to_owned(),
            value.unwrap_or_else(|_| json!(resolved.value)),
        );
    }
    info.insert(
        "context_length".into(),
        json!(started.launch.engine.context_length),
    );
    let tokenizer = started
        .language
        .as_ref()
        .map_or(&local.path, |language| &language.path);
    let name = args.parsed.text("served-model-name").unwrap_or(&local.name);
    for (key, value) in [
        ("model_path", local.path.display().to_string()),
        ("tokenizer_path", tokenizer.display().to_string()),
        ("served_model_name", name.to_owned()),
    ] {
        info.insert(key.into(), json!(value));
    }
    info
}

fn without_effect<'a>(notices: impl Iterator<Item = &'a Notice>) -> Map<String, serde_json::Value> {
    notices
        .map(|Notice { flag, reason }| (flag.clone(), json!(reason)))
        .collect()
}

/// Gigabytes by use, in SGLang's names.
fn memory_usage(started: &Started) -> Map<String, serde_json::Value> {
    let gigabytes =
        |bytes: usize| json!((bytes as f64 / f64::from(1 << 30) * 100.0).round() / 100.0);
    let executor = &started.launch.executor;
    let entries = [
        ("weight", gigabytes(started.memory.weights)),
        ("folded", gigabytes(started.memory.folded)),
        ("kvcache", gigabytes(started.memory.kv)),
        ("token_capacity", json!(executor.pages * executor.page_size)),
        ("graph", gigabytes(started.graphs)),
    ];
    entries
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
