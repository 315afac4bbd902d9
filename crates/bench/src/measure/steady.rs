//! The steady part of a run: the longest time in which the server was kept busy.

use super::overlap::{Level, levels, peak};
use super::timing::Timing;
use crate::clock::Nanos;

/// The longest contiguous time with at least a share of the peak number of requests under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// From.
    pub from: Nanos,
    /// To.
    pub to: Nanos,
    /// The least number under way in it.
    pub threshold: usize,
    /// The most ever.
    pub peak: usize,
}

impl Window {
    /// The window of requests at this share of their peak; the first of equally long ones.
    pub fn of(timings: &[Timing], share: f64) -> Option<Self> {
        let spans: Vec<(Nanos, Nanos)> = timings
            .iter()
            .map(|timing| (timing.sent, timing.finished))
            .collect();
        let levels = levels(&spans);
        let peak = peak(&levels);
        let threshold = ((peak as f64 * share).ceil() as usize).max(1);
        let mut longest: Option<(Nanos, Nanos)> = None;
        let mut open: Option<(Nanos, Nanos)> = None;
        let closing = Level {
            from: Nanos(u64::MAX),
            to: Nanos(u64::MAX),
            under_way: 0,
        };
        for level in levels.into_iter().chain([closing]) {
            if level.under_way >= threshold {
                let from = open.map_or(level.from, |(from, _)| from);
                open = Some((from, level.to));
            } else if let Some((from, to)) = open.take()
                && longest.is_none_or(|(start, end)| to.since(from) > end.since(start))
            {
                longest = Some((from, to));
            }
        }
        longest.map(|(from, to)| Self {
            from,
            to,
            threshold,
            peak,
        })
    }

    /// Its length in seconds.
    pub fn seconds(&self) -> f64 {
        self.to.seconds_since(self.from)
    }

    /// Output tokens per second in it, each token counted where it arrived.
    pub fn output_throughput(&self, timings: &[Timing]) -> f64 {
        let inside = |at: Nanos| self.from <= at && at <= self.to;
        let arrivals = timings.iter().flat_map(|timing| &timing.arrivals);
        let tokens: u64 = arrivals
            .filter(|arrival| inside(arrival.at))
            .map(|arrival| u64::from(arrival.tokens))
            .sum();
        tokens as f64 / self.seconds()
    }

    /// Requests that ended in it, per second.
    pub fn request_throughput(&self, timings: &[Timing]) -> f64 {
        let ended = timings
            .iter()
            .filter(|timing| (self.from..=self.to).contains(&timing.finished));
        ended.count() as f64 / self.seconds()
    }

    /// The mean number of requests under way in it.
    pub fn mean_concurrency(&self, timings: &[Timing]) -> f64 {
        let overlap = |timing: &Timing| {
            timing
                .finished
                .min(self.to)
                .seconds_since(timing.sent.max(self.from))
        };
        timings.iter().map(overlap).sum::<f64>() / self.seconds()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::timing::{Arrival, CountSource};

    fn timing(sent: u64, finished: u64) -> Timing {
        let second = |seconds: u64| Nanos(seconds * 1_000_000_000);
        Timing {
            sent: second(sent),
            scheduled: second(sent),
            finished: second(finished),
            queue: 0.0,
            ttft: 1.0,
            scheduled_ttft: 1.0,
            e2e: (finished - sent) as f64,
            scheduled_e2e: (finished - sent) as f64,
            arrivals: (sent + 1..=finished)
                .map(|at| Arrival {
                    at: second(at),
                    tokens: 2,
                })
                .collect(),
            output: 2 * (finished - sent),
            source: CountSource::Server,
        }
    }

    #[test]
    fn the_window_is_where_enough_requests_were_under_way() {
        // under way: 1 from 0, 2 from 2, 3 from 4 to 8, 2 to 10, 1 to 12
        let timings = [timing(0, 8), timing(2, 10), timing(4, 12)];
        let window = Window::of(&timings, 0.6).unwrap();
        assert_eq!((window.from.seconds(), window.to.seconds()), (2.0, 10.0));
        assert_eq!((window.threshold, window.peak), (2, 3));
        // tokens at 2..=8 of the first, 3..=10 of the second, 5..=10 of the third
        assert!((window.output_throughput(&timings) - 2.0 * (7 + 8 + 6) as f64 / 8.0).abs() < 1e-9);
        assert!((window.mean_concurrency(&timings) - (6 + 8 + 6) as f64 / 8.0).abs() < 1e-9);
        assert!((window.request_throughput(&timings) - 2.0 / 8.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_has_no_window() {
        assert_eq!(Window::of(&[], 0.8), None);
    }
}
