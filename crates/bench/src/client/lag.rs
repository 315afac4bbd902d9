//! Counts of lags, cheap enough to be kept on every read.

/// Sub-steps of each power of two: lags are known to an eighth of their size.
const STEPS: u64 = 8;
const BUCKETS: usize = 64 * STEPS as usize;

/// How often each lag occurred, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Lags {
    counts: Box<[u64; BUCKETS]>,
    total: u64,
}

impl Default for Lags {
    fn default() -> Self {
        Self {
            counts: Box::new([0; BUCKETS]),
            total: 0,
        }
    }
}

impl Lags {
    /// Counts one lag.
    pub(crate) fn record(&mut self, nanoseconds: u64) {
        self.counts[bucket(nanoseconds)] += 1;
        self.total += 1;
    }

    /// Takes over the counts of another.
    pub(crate) fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts.iter()) {
            *count += more;
        }
        self.total += other.total;
    }

    /// How many were counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The lag that this share of all does not exceed, in nanoseconds.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (self.total as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (place, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return upper(place);
            }
        }
        0
    }
}

fn bucket(value: u64) -> usize {
    if value < STEPS {
        return value as usize;
    }
    let power = value.ilog2();
    let step = (value >> (power - 3)) & (STEPS - 1);
    (u64::from(power - 2) * STEPS + step) as usize
}

/// The largest value of a bucket.
fn upper(bucket: usize) -> u64 {
    let (power, step) = (bucket as u64 / STEPS, bucket as u64 % STEPS);
    if power == 0 {
        return step;
    }
    let width = 1_u64 << (power - 1);
    (STEPS + step) * width + (width - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_known_to_an_eighth() {
        let mut lags = Lags::default();
        for lag in 1..=100_000_u64 {
            lags.record(lag);
        }
        for (share, exact) in [(0.5, 50_000.0), (0.99, 99_000.0), (1.0, 100_000.0)] {
            let found = lags.quantile(share) as f64;
            assert!(found >= exact && found <= exact * 1.13, "{share}: {found}");
        }
        assert_eq!((Lags::default().quantile(0.99), lags.total()), (0, 100_000));
    }

    #[test]
    fn every_value_lies_within_its_bucket() {
        for value in (0..64)
            .map(|bit| 1_u64 << bit)
            .chain(0..2000)
            .chain([u64::MAX])
        {
            let place = bucket(value);
            assert!(place < BUCKETS && upper(place) >= value, "{value}");
            assert!(place == 0 || upper(place - 1) < value, "{value}");
        }
    }
}
