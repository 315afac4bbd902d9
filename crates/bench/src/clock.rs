//! Instants of a run as nanoseconds since its origin.

use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A moment of a run: nanoseconds since the run's origin.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The moment as seconds since the origin.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Nanoseconds from an earlier moment; zero when it is not earlier.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Seconds from an earlier moment; zero when it is not earlier.
    pub fn seconds_since(self, earlier: Self) -> f64 {
        self.since(earlier) as f64 / 1e9
    }

    /// The moment this many seconds later.
    pub fn plus_seconds(self, seconds: f64) -> Self {
        Self(self.0.saturating_add((seconds * 1e9).round() as u64))
    }
}

/// The monotonic clock of a run; copies share the origin.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock whose origin is now.
    pub fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    /// The origin, for comparing with other monotonic instants.
    pub fn origin(self) -> Instant {
        self.origin
    }

    /// This moment.
    pub fn now(self) -> Nanos {
        Nanos(self.origin.elapsed().as_nanos() as u64)
    }

    /// How long until a moment; nothing when it has passed.
    pub fn until(self, moment: Nanos) -> Duration {
        Duration::from_nanos(moment.since(self.now()))
    }
}

/// Translates the kernel's wall-clock arrival stamps into moments of the run.
///
/// The wall clock may be slewed or set while a run lasts, so the offset is measured again often.
pub(crate) struct WallOffset {
    clock: Clock,
    wall_minus_run: i128,
    measured: Nanos,
}

impl WallOffset {
    const STALE_AFTER: u64 = 100_000_000;

    pub(crate) fn measure(clock: Clock) -> Self {
        let mut best = (u64::MAX, 0);
        for _ in 0..5 {
            let before = clock.now();
            let wall = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            let after = clock.now();
            let middle = u128::midpoint(before.0.into(), after.0.into());
            let width = after.since(before);
            if width < best.0 {
                best = (width, wall.as_nanos() as i128 - middle as i128);
            }
        }
        Self {
            clock,
            wall_minus_run: best.1,
            measured: clock.now(),
        }
    }

    /// The moment of an arrival, never later than `now`.
    pub(crate) fn arrival(&mut self, wall: Duration, now: Nanos) -> Nanos {
        if now.since(self.measured) > Self::STALE_AFTER {
            *self = Self::measure(self.clock);
        }
        let moment = wall.as_nanos() as i128 - self.wall_minus_run;
        Nanos(u64::try_from(moment.max(0)).unwrap_or(u64::MAX)).min(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_stamps_come_back_as_moments_of_the_run() {
        let clock = Clock::start();
        let mut offset = WallOffset::measure(clock);
        let before = clock.now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let after = clock.now();
        let moment = offset.arrival(wall, after);
        let slack = 50_000;
        assert!(
            moment.0 + slack >= before.0 && moment <= after,
            "{before:?} {moment:?} {after:?}"
        );
    }

    #[test]
    fn a_stamp_from_the_future_is_taken_as_now() {
        let clock = Clock::start();
        let mut offset = WallOffset::measure(clock);
        let now = clock.now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_hours(1);
        assert_eq!(offset.arrival(wall, now), now);
    }
}
