//! A whole server over a fake device, and a client that talks to it over a socket.

mod client;
mod log;
mod model;

use std::net::SocketAddr;

use engine::{EngineConfig, EngineHandle, EngineThread};
use scheduler::{Mix, Order, PageSize, Reuse, SchedulerConfig};
use serde_json::{Value, json};
use server::{
    AllowedNames, HealthCheck, Keys, Limits, ModelFacts, NativeStream, OpenApi, PrefixIsolation,
    RequestLog, Server, ServerConfig, ServerError, StartTimes, StopRequests, Stopped, Stopper,
    TextPipeline, Warmup,
};
use testkit::fake_executor::FakeExecutor;
use tokio::task::JoinHandle;

use client::Client;
pub(crate) use client::answer;
pub(crate) use log::Log;
use model::{END, VOCABULARY, template, tokenizer};
pub(crate) use model::{Gate, speak};

/// What a test may want to be different.
pub(crate) struct Setup {
    pub(crate) server: ServerConfig,
    pub(crate) engine: EngineConfig,
    pub(crate) text: Option<TextPipeline>,
    pub(crate) executor: FakeExecutor,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            server: server_config(),
            engine: engine_config(),
            text: Some(TextPipeline {
                tokenizer: tokenizer(),
                template: Some(template()),
                reasoning: None,
                tools: None,
            }),
            executor: FakeExecutor::new(speak),
        }
    }
}

impl Setup {
    /// The default, with changes.
    pub(crate) fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut setup = Self::default();
        change(&mut setup);
        setup
    }

    /// Starts it and waits until it is ready.
    pub(crate) async fn start(self) -> TestServer {
        let started = self.launch().await.expect("a port can be had");
        started.client().until_ready().await;
        started
    }

    /// The same for a server that wants a key.
    pub(crate) async fn start_with_key(self, key: &str) -> TestServer {
        let started = self.launch().await.expect("a port can be had");
        started.client().with_key(key).until_ready().await;
        started
    }

    /// Runs it until it ends by itself.
    pub(crate) async fn run_to_end(self) -> Result<Stopped, ServerError> {
        self.launch()
            .await?
            .serving
            .await
            .expect("the server does not panic")
    }

    /// Starts it and does not wait.
    pub(crate) async fn launch(self) -> Result<TestServer, ServerError> {
        let (engine, thread) =
            engine::start(self.engine, Box::new(self.executor)).expect("a thread can be started");
        let server = Server::bind(self.server, engine.clone(), self.text).await?;
        let address = server.address();
        let (stopper, requests) = StopRequests::new();
        let serving = tokio::spawn(server.serve(requests));
        Ok(TestServer {
            address,
            engine,
            _thread: thread,
            stopper,
            serving,
        })
    }
}

/// A server that runs.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) engine: EngineHandle,
    _thread: EngineThread,
    pub(crate) stopper: Stopper,
    pub(crate) serving: JoinHandle<Result<Stopped, ServerError>>,
}

impl TestServer {
    pub(crate) fn client(&self) -> Client {
        Client::new(self.address)
    }

    /// Stops it and tells how that went.
    pub(crate) async fn stop(self) -> Result<Stopped, ServerError> {
        self.stopper.stop();
        let stopped = self.serving.await.expect("the server does not panic");
        drop(self.engine);
        stopped
    }
}

/// A server with default settings.
pub(crate) async fn start() -> TestServer {
    Setup::default().start().await
}

/// The same with a gate before every token.
pub(crate) async fn start_gated() -> (Gate, TestServer) {
    let (gate, model) = Gate::new();
    let setup = Setup::with(|setup| setup.executor = FakeExecutor::new(model));
    (gate, setup.start().await)
}

fn server_config() -> ServerConfig {
    let server_args =
        json!({"model_path": "tiny", "tp_size": 1, "no_effect": ["--trust-remote-code"]});
    let memory_usage = json!({"weight": 0.1, "kvcache": 0.2});
    ServerConfig {
        host: "127.0.0.1".to_owned(),
        port: 0,
        tls: None,
        keys: Keys::default(),
        allowed: AllowedNames::default(),
        limits: Limits::default(),
        profiles: None,
        served_model_name: "org/tiny".to_owned(),
        model: ModelFacts {
            model_path: "/models/tiny".to_owned(),
            tokenizer_path: "/models/tiny".to_owned(),
            model_type: Some("llama".to_owned()),
            architectures: vec!["LlamaForCausalLM".to_owned()],
            weight_version: "default".to_owned(),
            preferred_sampling_params: None,
        },
        stream_interval: 1,
        native_stream: NativeStream::Cumulative,
        sampling_defaults: text::SamplingDefaults::default(),
        metrics: true,
        openapi: OpenApi::Served,
        cache_report: false,
        prefix_isolation: PrefixIsolation::None,
        auto_truncate: false,
        request_log: RequestLog::Off,
        warmup: Warmup::Skip,
        health: HealthCheck::default(),
        server_args: object(server_args),
        memory_usage: object(memory_usage),
        start_times: StartTimes::default(),
        version: "0.1.0".to_owned(),
    }
}

fn object(value: Value) -> serde_json::Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("{other} is no object"),
    }
}

fn engine_config() -> EngineConfig {
    let run_ahead = 2;
    EngineConfig {
        scheduler: SchedulerConfig {
            pages: 4096,
            page_size: PageSize::ONE,
            max_rows: 16,
            context_length: 512,
            chunk: 64,
            max_prefill_tokens: 128,
            max_step_scores: 1 << 20,
            run_ahead,
            conservativeness: 1.0,
            order: Order::Arrival,
            mix: Mix::Mixed,
            reuse: Reuse::Prefixes,
        },
        run_ahead: run_ahead as usize,
        context_length: 512,
        vocabulary: VOCABULARY as usize,
        end_tokens: vec![END],
        max_waiting: 4096,
        priorities: engine::Priorities::default(),
        decode_log_interval: 40,
        largest_graph: 0,
        random_seed: 1,
        watchdog: None,
        floor: None,
    }
}

/// JSON with everything that differs from run to run replaced by its name.
pub(crate) fn masked(mut value: Value) -> String {
    mask(&mut value);
    serde_json::to_string_pretty(&value).expect("values are JSON")
}

fn mask(value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(mask),
        Value::Object(members) => {
            for (name, member) in members {
                let is_made_up = member.as_str().is_some_and(|text| text.len() == 32);
                let is_time = name.ends_with("_ts")
                    || name.ends_with("_time")
                    || [
                        "step_times",
                        "created",
                        "e2e_latency",
                        "decode_throughput",
                        "timestamp",
                    ]
                    .contains(&name.as_str());
                if is_time && !member.is_null() || name == "id" && is_made_up {
                    *member = Value::from(format!("<{name}>"));
                }
                mask(member);
            }
        }
        _ => {}
    }
}
