use serde::{Deserialize, Serialize};

use super::StepCount;
use crate::json::record;

record! {
    /// The body of `/abort_request`.
    pub struct AbortRequest {
        /// The request by its whole name, or one output of it.
        rid: String,
        /// Whether all requests are meant.
        abort_all: bool,
    }
}

record! {
    /// The body of `/start_profile`. Other members choose what a Python profiler records and have no meaning here.
    pub struct StartProfileRequest {
        /// The folder that the trace is written to.
        output_dir: String,
        /// Begins the name of the file.
        profile_prefix: String,
        /// Steps to record, as a number or as a text; without it the recording lasts until it is stopped.
        num_steps: StepCount,
    }
}

/// The query of `/flush_cache`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub struct FlushCacheQuery {
    /// Seconds to wait for the engine to be idle; a moment when absent.
    #[serde(default)]
    pub timeout: Option<f64>,
}

/// The query of `/v1/loads`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct LoadsQuery {
    /// `json` or `prometheus`.
    #[serde(default)]
    pub format: Option<String>,
}

/// One element of the answer of `/get_load`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Which replica.
    pub dp_rank: usize,
    /// Requests that run or wait.
    pub num_reqs: usize,
    /// Requests that wait.
    pub num_waiting_reqs: usize,
    /// Tokens in KV memory.
    pub num_tokens: usize,
}
