//! Student's test of a difference of means: Welch's, and that of rounds.

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

/// From this many rounds on, their order is a covariate: below, the degree of freedom costs more than
/// a drift does.
pub const ORDER_COUNTS_FROM: usize = 4;

/// One round: both arms, measured next to each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Round {
    /// The second arm's value less the first's.
    pub difference: f64,
    /// Whether the second arm came first.
    pub reversed: bool,
}

impl Round {
    fn sign(&self) -> f64 {
        if self.reversed { -1.0 } else { 1.0 }
    }
}

/// What the test found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TTest {
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

impl TTest {
    /// Welch's test, for spreads that need not be the same; nothing when a sample has fewer than two
    /// values or nothing varies.
    pub fn welch(first: &[f64], second: &[f64]) -> Option<Self> {
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

    /// The test of differences within rounds; nothing when there are fewer than two or nothing varies.
    ///
    /// The order within a round is a covariate where both orders occur and there are at least
    /// [`ORDER_COUNTS_FROM`] rounds: then a steady drift costs neither level nor power.
    pub fn rounds(rounds: &[Round]) -> Option<Self> {
        if rounds.len() < 2 {
            return None;
        }
        let count = rounds.len() as f64;
        let differences: Vec<f64> = rounds.iter().map(|round| round.difference).collect();
        let signs: Vec<f64> = rounds.iter().map(Round::sign).collect();
        let (centre, lean) = (mean(&differences), mean(&signs));
        let spread_of_signs: f64 = signs.iter().map(|sign| (sign - lean).powi(2)).sum();
        let adjusted = rounds.len() >= ORDER_COUNTS_FROM && spread_of_signs > 0.0;
        let (slope, lost, leverage) = if adjusted {
            let pairs = signs.iter().zip(&differences);
            let product: f64 = pairs.map(|(s, d)| (s - lean) * (d - centre)).sum();
            let leverage = lean * lean / spread_of_signs;
            (product / spread_of_signs, 2.0, leverage)
        } else {
            (0.0, 1.0, 0.0)
        };
        let pairs = signs.iter().zip(&differences);
        let residual = pairs.map(|(s, d)| (d - centre - slope * (s - lean)).powi(2));
        let degrees = count - lost;
        let error = (residual.sum::<f64>() / degrees * (1.0 / count + leverage)).sqrt();
        let difference = centre - slope * lean;
        let largest = differences
            .iter()
            .fold(0.0, |most: f64, one| most.max(one.abs()));
        if error.is_nan() || error <= f64::EPSILON * largest {
            return None;
        }
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
            let found = TTest::welch(&first, &second).unwrap();
            let interval = found.interval(0.95);
            let found = [found.t, found.degrees, found.p, interval.low, interval.high];
            for (found, expected) in found.iter().zip(expected) {
                let off = (found - expected).abs();
                assert!(off < 1e-9 * (1.0 + expected.abs()), "{found} {expected}");
            }
        }
    }

    fn rounds(differences: &[f64]) -> Vec<Round> {
        let rounds = differences
            .iter()
            .enumerate()
            .map(|(at, difference)| Round {
                difference: *difference,
                reversed: at % 2 == 1,
            });
        rounds.collect()
    }

    #[test]
    fn few_rounds_are_a_test_of_one_sample() {
        // scipy.stats.ttest_1samp([0.5, 1.5, 1.0], 0)
        let found = TTest::rounds(&rounds(&[0.5, 1.5, 1.0])).unwrap();
        assert!(
            (found.t - 3.464_101_615_137_754_6).abs() < 1e-12,
            "{found:?}"
        );
        assert!(
            (found.p - 0.074_179_900_227_448_56).abs() < 1e-9,
            "{found:?}"
        );
    }

    #[test]
    fn the_order_within_rounds_is_taken_out() {
        // 1 and a drift of ±5 by the order, and noise that neither explains
        let found = TTest::rounds(&rounds(&[6.1, -3.9, 5.9, -4.1])).unwrap();
        assert!((found.difference - 1.0).abs() < 1e-12, "{found:?}");
        assert!(found.degrees < 2.1 && found.error < 0.11, "{found:?}");
        let odd = TTest::rounds(&rounds(&[6.1, -3.9, 5.9, -4.1, 6.0])).unwrap();
        assert!((odd.difference - 1.0).abs() < 1e-12, "{odd:?}");
        let one_way: Vec<Round> = rounds(&[1.0, 2.0, 1.5, 2.5])
            .into_iter()
            .map(|round| Round {
                reversed: false,
                ..round
            })
            .collect();
        assert!((TTest::rounds(&one_way).unwrap().degrees - 3.0).abs() < 1e-12);
        assert_eq!(TTest::rounds(&one_way[..1]), None);
    }

    #[test]
    fn one_value_or_none_that_varies_cannot_be_tested() {
        assert_eq!(TTest::welch(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(TTest::welch(&[1.0, 1.0], &[2.0, 2.0]), None);
        assert_eq!(TTest::welch(&[1.0, f64::NAN], &[2.0, 2.0]), None);
    }
}
