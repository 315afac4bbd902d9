use std::time::{Duration, Instant};

use scheduler::SchedulerStats;

/// How long the last rate of generation is told when nothing runs: long enough for whoever looks once in a while.
const REMEMBERED: Duration = Duration::from_secs(30);

/// The engine at a glance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineStats {
    /// Tokens generated a second, over the last logging interval.
    pub generation_throughput: f64,
    /// Since when nothing has run or waited, if that is so.
    pub idle_since: Option<Instant>,
    /// Whether the last generating step was replayed from a capture.
    pub captured: bool,
    /// Steps that came back from the device.
    pub completed_steps: u64,
    /// Gauges and counters of the scheduler.
    pub scheduler: SchedulerStats,
}

impl EngineStats {
    /// Tokens generated a second, for those who watch: zero once nothing has run for half a minute.
    pub fn throughput_at(&self, now: Instant) -> f64 {
        let rested = self.idle_since.map(|since| now.duration_since(since));
        if rested.is_some_and(|rested| rested >= REMEMBERED) {
            0.0
        } else {
            self.generation_throughput
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_that_rests_for_long_generates_nothing() {
        let since = Instant::now();
        let mut stats = EngineStats {
            generation_throughput: 7.0,
            ..EngineStats::default()
        };
        let generates = |stats: &EngineStats, seconds| {
            stats.throughput_at(since + Duration::from_secs(seconds)) > 0.0
        };
        assert!(generates(&stats, 1000));
        stats.idle_since = Some(since);
        assert!(generates(&stats, 29));
        assert!(!generates(&stats, 30));
    }
}
