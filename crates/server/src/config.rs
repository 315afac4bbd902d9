use std::time::Duration;

use serde_json::{Map, Value};
use text::SamplingDefaults;

use crate::auth::Keys;
use crate::names::AllowedNames;
use crate::profiles::ProfileFolder;
use crate::tls::Tls;

/// What the server needs to know besides the engine and the text layer.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The address to listen on.
    pub host: String,
    /// The port to listen on; 0 lets the system choose.
    pub port: u16,
    /// What connections are encrypted with.
    pub tls: Option<Tls>,
    /// What requests must bring.
    pub keys: Keys,
    /// Names that clients may call the server by, and pages that may ask.
    pub allowed: AllowedNames,
    /// What clients may take up.
    pub limits: Limits,
    /// Where profiles are written; without it there are none.
    pub profiles: Option<ProfileFolder>,
    /// The model's name for clients.
    pub served_model_name: String,
    /// What `/model_info` says.
    pub model: ModelFacts,
    /// Tokens per event of a stream, unless the request says otherwise.
    pub stream_interval: usize,
    /// What the events of native streams repeat.
    pub native_stream: NativeStream,
    /// What chats use for parameters their request leaves out.
    pub sampling_defaults: SamplingDefaults,
    /// Whether `/metrics` exists.
    pub metrics: bool,
    /// Whether `/openapi.json` exists.
    pub openapi: OpenApi,
    /// Whether answers say how many prompt tokens were found in the cache.
    pub cache_report: bool,
    /// Who finds the prefixes of whose requests in the cache.
    pub prefix_isolation: PrefixIsolation,
    /// Whether prompts and outputs that are too long are cut instead of refused.
    pub auto_truncate: bool,
    /// Whether requests are logged.
    pub request_log: RequestLog,
    /// Whether the server sends itself a first request.
    pub warmup: Warmup,
    /// How health is found out.
    pub health: HealthCheck,
    /// Every resolved argument, for `/server_info`; what had no effect is listed in it too.
    pub server_args: Map<String, Value>,
    /// Gigabytes by use, for `/server_info`.
    pub memory_usage: Map<String, Value>,
    /// How long it took until the engine could take requests.
    pub start_times: StartTimes,
    /// Our version.
    pub version: String,
}

/// What clients may take up at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a connection may take for its handshake and for the head of its next request.
    pub head_time: Duration,
    /// How long the next part of a body may take.
    pub body_time: Duration,
    /// Bytes per second at which a body must arrive on the whole; it may be [`Self::body_time`] late.
    pub body_rate: u64,
    /// Connections that are open at once; further ones wait.
    pub connections: usize,
    /// Requests at once on one HTTP/2 connection.
    pub streams: u32,
    /// Bytes of the bodies of all requests in flight.
    pub body_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_time: Duration::from_secs(30),
            body_time: Duration::from_secs(30),
            body_rate: 16 << 10,
            connections: 16_384,
            streams: 200,
            body_bytes: 1 << 30,
        }
    }
}

/// How long parts of the start took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartTimes {
    /// From nothing to an engine that takes requests.
    pub engine: Duration,
    /// Weights alone, from files to the device.
    pub weights: Duration,
}

/// What is known about the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelFacts {
    /// Where it was loaded from.
    pub model_path: String,
    /// Where its tokenizer was loaded from.
    pub tokenizer_path: String,
    /// The kind of model, as its configuration names it.
    pub model_type: Option<String>,
    /// The architectures, as its configuration names them.
    pub architectures: Vec<String>,
    /// Which weights answer.
    pub weight_version: String,
    /// Sampling parameters the operator set for everybody.
    pub preferred_sampling_params: Option<Value>,
}

/// What the events of a native stream repeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NativeStream {
    /// Text and tokens from the start of the output.
    #[default]
    Cumulative,
    /// Text from the start; only new tokens.
    NewTokens,
    /// Neither: only what is new.
    Incremental,
}

/// Who finds the prefixes of whose requests in the cache. Those who do learn from the time that an answer takes what others
/// asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrefixIsolation {
    /// Everybody.
    #[default]
    None,
    /// Those whose requests come with the same API key.
    Key,
    /// Those whose requests name the same `cache_salt`; without one, nobody.
    Salt,
}

/// Whether requests are logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestLog {
    /// No.
    #[default]
    Off,
    /// When they come and when they end, without their text.
    Summary,
}

/// Whether the server describes itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpenApi {
    /// At `/openapi.json`.
    #[default]
    Served,
    /// No.
    Off,
}

/// Whether the server sends itself a first request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Warmup {
    /// Before it says that it is ready.
    #[default]
    Request,
    /// No; the first client does.
    Skip,
}

/// How `/health` finds out; `/health_generate` always generates a token within this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthCheck {
    /// By a token generated within this time.
    Generate(Duration),
    /// By what the engine says of itself, which costs nothing.
    Alive(Duration),
}

impl HealthCheck {
    /// How long a token may take.
    pub fn limit(self) -> Duration {
        match self {
            Self::Generate(limit) | Self::Alive(limit) => limit,
        }
    }
}

impl Default for HealthCheck {
    fn default() -> Self {
        Self::Alive(Duration::from_secs(20))
    }
}
