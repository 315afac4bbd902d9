use scheduler::SchedulerStats;

/// The engine at a glance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineStats {
    /// Tokens generated a second, over the last logging interval.
    pub generation_throughput: f64,
    /// Whether the last generating step was replayed from a capture.
    pub captured: bool,
    /// Gauges and counters of the scheduler.
    pub scheduler: SchedulerStats,
}
