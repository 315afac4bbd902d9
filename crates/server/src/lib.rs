//! The HTTP server: the native and OpenAI endpoints over an engine, compatible with SGLang's.
//!
//! It reads requests, turns text into tokens and tokens into text, finds stop strings, and writes
//! answers and streams. It decides nothing about batches or memory and never touches a device; one
//! task serves a connection, and a client that goes away takes its sequences with it.

mod access_log;
mod admission;
mod app;
mod auth;
mod clock;
mod config;
mod connections;
mod convert;
mod decoder;
mod error;
mod extract;
mod generation;
mod metrics;
mod outputs;
mod pipeline;
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
mod warmup;

pub use config::{
    HealthCheck, ModelFacts, NativeStream, OpenApi, RequestLog, ServerConfig, StartTimes, Warmup,
};
pub use error::ServerError;
pub use pipeline::TextPipeline;
pub use run::{Server, run};
pub use shutdown::{StopRequests, Stopped, Stopper};
