use serde::{Deserialize, Serialize};

use crate::json::record;

record! {
    /// The body of `/abort_request`.
    pub struct AbortRequest {
        /// The request, or the beginning of its name.
        rid: String,
        /// Whether all requests are meant.
        abort_all: bool,
    }
}

/// The query of `/flush_cache`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub struct FlushCacheQuery {
    /// Seconds to wait for the engine to be idle.
    #[serde(default)]
    pub timeout: f64,
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
