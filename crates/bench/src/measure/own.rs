//! Whether the client was fast enough to be believed.

use crate::client::OwnBehaviour;
use crate::os::ProcessUsage;
use crate::record::RequestRecord;
use std::time::Duration;

/// Reads later than this after arrival mean that the client had too much to do, in seconds.
const LATE_READ: f64 = 0.020;
/// The same, when arrivals are dated by the reading itself.
const LATE_UNSTAMPED_READ: f64 = 0.001;
/// Requests sent later than this after they were let go.
const LATE_SEND: f64 = 0.010;
/// The share of its threads' time a client may need.
const BUSY: f64 = 0.85;

/// How the client did.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientHealth {
    /// From the arrival of data in the kernel to its being read, 99th percentile, seconds.
    pub read_lag: f64,
    /// From being let go to being sent, 99th percentile, seconds.
    pub send_lag: f64,
    /// Processor time per second and thread.
    pub busy: f64,
    /// Processor seconds.
    pub cpu: f64,
    /// The most memory ever resident, bytes.
    pub memory: u64,
    /// The share of reads that the kernel stamped.
    pub stamped: f64,
    /// Threads of connections.
    pub threads: usize,
    /// Why figures may be the client's rather than the server's; empty when they are not.
    pub limits: Vec<String>,
}

impl ClientHealth {
    /// Judges a client by what it measured of itself over a run.
    pub fn of(
        own: &OwnBehaviour,
        records: &[RequestRecord],
        (before, after): (ProcessUsage, ProcessUsage),
        (wall, threads): (Duration, usize),
    ) -> Self {
        let reads = own.read_lag.total().max(1) as f64;
        let mut lags: Vec<f64> = records
            .iter()
            .map(|record| record.sent.seconds_since(record.released))
            .collect();
        lags.sort_by(f64::total_cmp);
        let send_lag = super::percentile(&lags, 99.0);
        let cpu = after.cpu.saturating_sub(before.cpu).as_secs_f64();
        let mut health = Self {
            read_lag: own.read_lag.quantile(0.99) as f64 / 1e9,
            send_lag: if send_lag.is_nan() { 0.0 } else { send_lag },
            busy: cpu / wall.as_secs_f64().max(1e-9) / threads.max(1) as f64,
            cpu,
            memory: after.peak_memory,
            stamped: 1.0 - own.unstamped as f64 / reads,
            threads,
            limits: Vec::new(),
        };
        health.limits = health.judge();
        health
    }

    fn judge(&self) -> Vec<String> {
        let mut limits = Vec::new();
        let late_read = if self.stamped > 0.99 {
            LATE_READ
        } else {
            LATE_UNSTAMPED_READ
        };
        if self.read_lag > late_read {
            limits.push(format!("reads lag by {:.1} ms (p99)", self.read_lag * 1e3));
        }
        if self.send_lag > LATE_SEND {
            limits.push(format!("sends lag by {:.1} ms (p99)", self.send_lag * 1e3));
        }
        if self.busy > BUSY {
            limits.push(format!("its threads are {:.0} % busy", self.busy * 100.0));
        }
        limits
    }

    /// Whether figures may be the client's rather than the server's.
    pub fn is_limited(&self) -> bool {
        !self.limits.is_empty()
    }
}
