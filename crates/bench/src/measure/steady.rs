//! The steady part of a closed loop: its run without ramp-up and drain.

use super::overlap::{levels, peak};
use super::timing::Timing;
use crate::clock::Nanos;
use std::fmt;

/// A closed loop is steady where at least this share of its peak number of requests was under way.
const STEADY_SHARE: f64 = 0.8;
/// The steady part must be at least this share of the run.
const LEAST_SHARE: f64 = 0.3;
/// Every place of the loop must have been used this often in it, and this many requests in all.
const LEAST_TURNS: usize = 3;
const LEAST_COMPLETIONS: usize = 20;
/// A dip is bridged up to this long, or up to this share of the median latency: so long a client
/// may need from the end of one request to the start of the next.
const BRIDGED: u64 = 5_000_000;
const BRIDGED_SHARE: f64 = 0.05;

/// What makes requests leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// A schedule: a rate, a ramp or a trace.
    Open,
    /// The start of the run: all leave at once.
    Burst,
    /// The end of another request.
    Closed,
}

/// What the steady part of a run came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steady {
    /// From.
    pub from: Nanos,
    /// To.
    pub to: Nanos,
    /// The least number under way in it, dips that are bridged aside.
    pub threshold: usize,
    /// Successful requests per second, each counted by the share of its time that lies inside.
    pub request_throughput: f64,
    /// Output tokens per second, each counted where it arrived.
    pub output_throughput: f64,
    /// The mean number under way.
    pub concurrency: f64,
}

/// Why a run has no steady part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NotSteady {
    /// Requests came on a schedule.
    Open,
    /// All requests came at once.
    Burst,
    /// The run has a ramp-up and a drain in its middle.
    Resumed,
    /// It is too small a part of the run.
    Short {
        /// The longest stretch, in seconds.
        seconds: f64,
        /// The run, in seconds.
        of: f64,
    },
    /// Too few requests were served in it.
    Few {
        /// How many.
        completed: f64,
        /// How many it would take.
        wanted: usize,
    },
}

impl fmt::Display for NotSteady {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => formatter.write_str("requests came on a schedule, not in a closed loop"),
            Self::Burst => formatter.write_str("all requests were sent at once"),
            Self::Resumed => {
                formatter.write_str("the run was resumed: it ramps up and drains twice")
            }
            Self::Short { seconds, of } => write!(
                formatter,
                "80 % of the peak were under way for {seconds:.2} of {of:.2} s, 30 % of the run are needed"
            ),
            Self::Few { completed, wanted } => write!(
                formatter,
                "{completed:.0} requests were served in it, {wanted} are needed"
            ),
        }
    }
}

impl Steady {
    /// The steady part of a run: `spans` are its requests from send to end, `timings` the
    /// successful ones.
    ///
    /// # Errors
    /// When there is none, or it is too small a part of the run to speak for it.
    pub fn of(
        shape: Loop,
        spans: &[(Nanos, Nanos)],
        timings: &[Timing],
    ) -> Result<Self, NotSteady> {
        match shape {
            Loop::Open => return Err(NotSteady::Open),
            Loop::Burst => return Err(NotSteady::Burst),
            Loop::Closed => {}
        }
        let first = spans.iter().map(|span| span.0).min().unwrap_or_default();
        let last = spans.iter().map(|span| span.1).max().unwrap_or_default();
        let run = last.seconds_since(first);
        let (threshold, stretch) = longest(spans);
        let (from, to) = stretch.unwrap_or_default();
        let seconds = to.seconds_since(from);
        if seconds <= run * LEAST_SHARE {
            return Err(NotSteady::Short { seconds, of: run });
        }
        let completed: f64 = timings.iter().map(|timing| inside(timing, from, to)).sum();
        let wanted = LEAST_COMPLETIONS.max(LEAST_TURNS * threshold);
        if completed < wanted as f64 {
            return Err(NotSteady::Few { completed, wanted });
        }
        let arrivals = timings.iter().flat_map(|timing| &timing.arrivals);
        let tokens: u64 = arrivals
            .filter(|arrival| from < arrival.at && arrival.at <= to)
            .map(|arrival| u64::from(arrival.tokens))
            .sum();
        let overlap = |span: &(Nanos, Nanos)| span.1.min(to).seconds_since(span.0.max(from));
        Ok(Self {
            from,
            to,
            threshold,
            request_throughput: completed / seconds,
            output_throughput: tokens as f64 / seconds,
            concurrency: spans.iter().map(overlap).sum::<f64>() / seconds,
        })
    }

    /// Its length in seconds.
    pub fn seconds(&self) -> f64 {
        self.to.seconds_since(self.from)
    }
}

/// The share of a request's time that lies in a window.
fn inside(timing: &Timing, from: Nanos, to: Nanos) -> f64 {
    let whole = timing.finished.seconds_since(timing.sent);
    let part = timing.finished.min(to).seconds_since(timing.sent.max(from));
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// The threshold, and the longest stretch above it with short dips bridged.
fn longest(spans: &[(Nanos, Nanos)]) -> (usize, Option<(Nanos, Nanos)>) {
    let levels = levels(spans);
    let threshold = ((peak(&levels) as f64 * STEADY_SHARE).ceil() as usize).max(1);
    let mut latencies: Vec<u64> = spans.iter().map(|(from, to)| to.since(*from)).collect();
    latencies.sort_unstable();
    let median = latencies.get(latencies.len() / 2).copied().unwrap_or(0);
    let bridged = BRIDGED.max((median as f64 * BRIDGED_SHARE) as u64);
    let mut longest: Option<(Nanos, Nanos)> = None;
    let mut open: Option<(Nanos, Nanos)> = None;
    for level in levels.iter().filter(|level| level.under_way >= threshold) {
        let from = match open {
            Some((from, to)) if level.from.since(to) <= bridged => from,
            _ => level.from,
        };
        open = Some((from, level.to));
        if longest.is_none_or(|(start, end)| level.to.since(from) > end.since(start)) {
            longest = open;
        }
    }
    (threshold, longest)
}

#[cfg(test)]
mod tests;
