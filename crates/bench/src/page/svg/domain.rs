//! The values that an axis covers: all of them, on a logarithmic scale where a tail is long.

use super::Scale;
use super::axis::short;
use crate::measure::percentile;

/// A largest value this many times the median makes a scale logarithmic.
const LONG_TAIL: f64 = 20.0;
/// So does one this many times the fifth percentile.
const WIDE: f64 = 100.0;

/// The ends of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Domain {
    low: f64,
    high: f64,
    logarithmic: bool,
    /// Values smaller than a logarithmic scale can show.
    below: usize,
}

impl Domain {
    /// Evenly spaced values between two ends.
    pub fn even(low: f64, high: f64) -> Self {
        Self {
            low,
            high,
            logarithmic: false,
            below: 0,
        }
    }

    /// Room for all values. No tail is cut: a long one makes the scale logarithmic.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let finite = values.into_iter().filter(|value| value.is_finite());
        let mut sorted: Vec<f64> = finite.collect();
        sorted.sort_by(f64::total_cmp);
        let (Some(lowest), Some(highest)) = (sorted.first(), sorted.last()) else {
            return Self::even(0.0, 1.0);
        };
        let (lowest, highest) = (*lowest, *highest);
        let positive = &sorted[sorted.partition_point(|value| *value <= 0.0)..];
        let (fifth, median) = (percentile(positive, 5.0), percentile(positive, 50.0));
        if highest > LONG_TAIL * median || highest > WIDE * fifth {
            // Reads that coalesce make gaps of microseconds; decades for them would hide the rest.
            let low = positive[0].max(fifth / 10.0);
            return Self {
                low: low * 0.9,
                high: highest * 1.15,
                logarithmic: true,
                below: sorted.partition_point(|value| *value < low),
            };
        }
        if lowest < highest * 0.5 {
            Self::even(lowest.min(0.0), highest * 1.05)
        } else {
            Self::even(lowest * 0.98, highest * 1.02)
        }
    }

    /// The same down to zero, unless it is logarithmic.
    pub fn from_zero(self) -> Self {
        let low = if self.logarithmic { self.low } else { 0.0 };
        Self { low, ..self }
    }

    /// The scale between two pixels.
    pub fn scale(self, pixels: (f64, f64)) -> Scale {
        if self.logarithmic {
            Scale::logarithmic((self.low, self.high), pixels)
        } else {
            Scale::new((self.low, self.high), pixels)
        }
    }

    /// An axis title that says what kind of scale it is.
    pub fn titled(self, title: &str) -> String {
        match (self.logarithmic, self.below) {
            (false, _) => title.to_owned(),
            (true, 0) => format!("{title}, log scale"),
            (true, below) => format!(
                "{title}, log scale; {below} below {} drawn there",
                short(self.low)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_tail_makes_a_scale_logarithmic_and_stays_within_it() {
        let domain = Domain::of((0..99).map(|_| 10.0).chain([1500.0]));
        let scale = domain.scale((0.0, 100.0));
        assert_eq!(domain.titled("ms"), "ms, log scale");
        assert!(scale.at(1500.0) < 100.0 && scale.at(1500.0) > scale.at(1400.0));
        assert!(scale.at(10.0) < 10.0);
    }

    #[test]
    fn values_alike_are_spaced_evenly() {
        let domain = Domain::of([200.0, 190.0, 210.0]);
        assert_eq!(domain.titled("ms"), "ms");
        assert!(domain.scale((0.0, 100.0)).at(190.0) > 0.0);
        assert!(domain.from_zero().scale((0.0, 100.0)).at(190.0) > 80.0);
    }

    #[test]
    fn values_below_a_logarithmic_scale_are_counted_in_its_title() {
        let values = (0..100).map(|_| 10.0).chain([0.0, 0.001, 900.0]);
        assert_eq!(
            Domain::of(values).titled("ms"),
            "ms, log scale; 2 below 0.9 drawn there"
        );
    }
}
