use std::sync::atomic::{AtomicU64, Ordering};

/// Counts by upper bound, and their sum; written by many without a lock.
#[derive(Debug)]
pub(super) struct Histogram {
    bounds: &'static [f64],
    /// One for each bound and one for what is larger than all.
    counts: Vec<AtomicU64>,
    /// The bits of an `f64`.
    sum: AtomicU64,
}

/// A histogram at one moment.
#[derive(Debug, PartialEq)]
pub(super) struct Snapshot {
    /// Upper bounds, each with the number of values up to it.
    pub(super) buckets: Vec<(f64, u64)>,
    pub(super) count: u64,
    pub(super) sum: f64,
}

impl Histogram {
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self {
            bounds,
            counts,
            sum: AtomicU64::new(0.0_f64.to_bits()),
        }
    }

    /// Counts `value` as often as `times` says.
    pub(super) fn observe(&self, value: f64, times: u64) {
        let bucket = self.bounds.partition_point(|&bound| bound < value);
        self.counts[bucket].fetch_add(times, Ordering::Relaxed);
        let add = |bits| Some((f64::from_bits(bits) + value * times as f64).to_bits());
        // The update never declines.
        let _ = self
            .sum
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let mut count = 0;
        let mut buckets = Vec::with_capacity(self.counts.len());
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        for (bound, bucket) in bounds.zip(&self.counts) {
            count += bucket.load(Ordering::Relaxed);
            buckets.push((bound, count));
        }
        Snapshot {
            buckets,
            count,
            sum: f64::from_bits(self.sum.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_up_to_their_bound() {
        let histogram = Histogram::new(&[1.0, 2.0]);
        for (value, times) in [(0.5, 1), (1.0, 2), (1.5, 1), (3.0, 1)] {
            histogram.observe(value, times);
        }
        let expected = Snapshot {
            buckets: vec![(1.0, 3), (2.0, 4), (f64::INFINITY, 5)],
            count: 5,
            sum: 7.0,
        };
        assert_eq!(histogram.snapshot(), expected);
    }
}
