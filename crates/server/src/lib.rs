//! The HTTP server: the native and OpenAI endpoints over an engine, compatible with SGLang's.
//!
//! It reads requests, turns text into tokens and tokens into text, finds stop strings, and writes
//! answers and streams. It decides nothing about batches or memory and never touches a device; one
//! task serves a connection, and a client that goes away takes its sequences with it.

mod access_log;
mod admission;
mod app;
mod auth;
mod body;
mod budget;
mod clock;
mod config;
mod connections;
mod convert;
mod decoder;
mod error;
mod extract;
mod generation;
mod metrics;
mod names;
mod outputs;
mod pipeline;
mod profiles;
mod request_id;
mod respond;
mod route;
mod routes;
mod run;
mod running;
mod sequence;
mod shutdown;
mod start;
mod state;
mod stream;
mod table;
mod tls;
mod unknown;
mod warmup;
mod work;

pub use auth::Keys;
pub use config::{
    HealthCheck, Limits, ModelFacts, NativeStream, OpenApi, PrefixIsolation, RequestLog,
    ServerConfig, StartTimes, Warmup,
};
pub use error::ServerError;
pub use names::AllowedNames;
pub use pipeline::TextPipeline;
pub use profiles::ProfileFolder;
pub use run::{Server, run};
pub use shutdown::{StopRequests, Stopped, Stopper};
pub use tls::{Tls, TlsError, TlsFiles};
