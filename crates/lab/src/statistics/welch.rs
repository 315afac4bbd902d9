//! Welch's test: two means whose spreads need not be the same.

use serde::Serialize;

use super::sample::{mean, variance};
use super::special::{t_quantile, t_two_sided};

/// A range of values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Whether a value lies in it.
    pub fn contains(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The smallest interval that has both.
    pub fn around(self, other: Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }

    /// The interval with both ends changed by a function that keeps their order.
    pub fn map(self, change: impl Fn(f64) -> f64) -> Self {
        Self {
            low: change(self.low),
            high: change(self.high),
        }
    }
}

/// What the test found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Welch {
    /// The mean of the second minus that of the first.
    pub difference: f64,
    /// The standard error of the difference.
    pub error: f64,
    /// The difference in standard errors.
    pub t: f64,
    /// Degrees of freedom.
    pub degrees: f64,
    /// The chance of such a difference when there is none.
    pub p: f64,
}

impl Welch {
    /// Compares two samples; nothing when one has fewer than two values or nothing varies.
    pub fn of(first: &[f64], second: &[f64]) -> Option<Self> {
        if first.len() < 2 || second.len() < 2 {
            return None;
        }
        let share = |values: &[f64]| variance(values) / values.len() as f64;
        let (one, two) = (share(first), share(second));
        let error = (one + two).sqrt();
        let difference = mean(second) - mean(first);
        if error.is_nan() || error <= 0.0 {
            return None;
        }
        let freedom = |part: f64, values: &[f64]| part * part / (values.len() - 1) as f64;
        let degrees = (one + two).powi(2) / (freedom(one, first) + freedom(two, second));
        let t = difference / error;
        Some(Self {
            difference,
            error,
            t,
            degrees,
            p: t_two_sided(t, degrees),
        })
    }

    /// The differences that the samples allow, at this level of confidence.
    pub fn interval(&self, level: f64) -> Interval {
        let reach = t_quantile(f64::midpoint(1.0, level), self.degrees) * self.error;
        Interval {
            low: self.difference - reach,
            high: self.difference + reach,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::reference::samples;

    #[test]
    fn numbers_are_those_of_scipy() {
        for (first, second, expected) in samples("welch") {
            let found = Welch::of(&first, &second).unwrap();
            let interval = found.interval(0.95);
            let found = [found.t, found.degrees, found.p, interval.low, interval.high];
            for (found, expected) in found.iter().zip(expected) {
                let off = (found - expected).abs();
                assert!(off < 1e-9 * (1.0 + expected.abs()), "{found} {expected}");
            }
        }
    }

    #[test]
    fn one_value_or_none_that_varies_cannot_be_tested() {
        assert_eq!(Welch::of(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(Welch::of(&[1.0, 1.0], &[2.0, 2.0]), None);
        assert_eq!(Welch::of(&[1.0, f64::NAN], &[2.0, 2.0]), None);
    }
}
