//! When requests are sent: each pace is a rule, the load loop is one.

mod arrivals;
mod ramp;
mod replay;

pub use arrivals::{Arrivals, Drift, Gaps};
pub use ramp::Ramp;
pub use replay::Replay;

use crate::clock::Nanos;

/// What a pace and a stop rule may know about a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadState {
    /// When the load began.
    pub started: Nanos,
    /// This moment.
    pub now: Nanos,
    /// Requests that were due so far.
    pub departed: usize,
    /// When the newest of them was dispatched or queued.
    pub last_departure: Nanos,
    /// Requests under way or waiting for a free place.
    pub pending: usize,
    /// Requests that ended.
    pub finished: usize,
    /// Requests that ended badly.
    pub failed: usize,
}

/// When the next request is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// At this moment, or at once when it has passed.
    At(Nanos),
    /// As soon as fewer than this many are pending.
    WhenFewerThan(usize),
}

/// A rule of when requests are sent. It is asked once per request, in order.
pub trait Pace: Send {
    /// When the next request is due.
    fn next(&mut self, state: &LoadState) -> Departure;
}

/// Everything at once.
pub struct Burst;

impl Pace for Burst {
    fn next(&mut self, state: &LoadState) -> Departure {
        Departure::At(state.started)
    }
}

/// A closed loop: the next request goes when one of this many is done.
pub struct Closed {
    /// How many are pending at any time.
    pub concurrency: usize,
}

impl Pace for Closed {
    fn next(&mut self, _: &LoadState) -> Departure {
        Departure::WhenFewerThan(self.concurrency)
    }
}
