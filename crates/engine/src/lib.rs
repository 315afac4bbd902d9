//! The engine thread and the handle through which everybody else uses it.
//!
//! One thread owns the scheduler, the prefix cache and the order of steps; handles send it commands and get streams of
//! tokens back. There is no text here, no HTTP, no lock on the token path, and no waiting for clients.

mod canceller;
mod clients;
mod command;
mod config;
mod error;
mod floor;
mod handle;
mod log;
mod probe;
mod profile;
mod recording;
mod run;
mod stats;
mod stream;
mod times;
mod watchdog;

pub use canceller::Canceller;
pub use config::{EngineConfig, Priorities};
pub use error::{RequestError, RequestFailed};
pub use floor::StepFloor;
pub use handle::{EngineHandle, GenerateRequest};
pub use probe::Probe;
pub use recording::{Recording, RecordingError};
pub use run::{EngineThread, start};
pub use scheduler::SchedulerStats;
pub use stats::EngineStats;
pub use stream::{TokenEvent, TokenProgress, TokenStream};
pub use times::{Measured, Spread, StepTimes};
