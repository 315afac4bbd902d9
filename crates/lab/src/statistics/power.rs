//! How many runs show a difference, and which difference so many runs show.

use super::special::t_quantile;
use super::t_test::ORDER_COUNTS_FROM;

/// The chance with which a difference that is there shall be found.
const POWER: f64 = 0.8;
/// More runs than this are not worth a number.
const MOST: usize = 100_000;

/// How runs are held against each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Design {
    /// All runs of one arm against all of the other: Welch's test of equal spreads.
    Apart,
    /// Within rounds, whose order alternates: [`TTest::rounds`](super::TTest::rounds).
    Rounds,
}

impl Design {
    /// Degrees of freedom with this number of runs an arm; there are at least two.
    fn degrees(self, runs: usize) -> f64 {
        let lost = match self {
            Self::Apart => return (2 * runs - 2) as f64,
            Self::Rounds if runs >= ORDER_COUNTS_FROM => 2,
            Self::Rounds => 1,
        };
        (runs - lost) as f64
    }

    /// The standard error of the mean difference, in spreads of what is averaged: single runs, or
    /// differences within rounds.
    fn error(self, runs: usize) -> f64 {
        match self {
            Self::Apart => (2.0 / runs as f64).sqrt(),
            Self::Rounds => (1.0 / runs as f64).sqrt(),
        }
    }
}

/// Runs per arm that find a difference of means with four chances in five. `deviation` is the spread
/// of single runs, or of the differences within rounds. Nothing when it would be more than a hundred
/// thousand, or nothing is asked.
pub fn runs_needed(design: Design, deviation: f64, difference: f64, level: f64) -> Option<usize> {
    let enough = |runs: usize| detectable(design, deviation, runs, level) <= difference.abs();
    if difference == 0.0 || !difference.is_finite() || !deviation.is_finite() {
        return None;
    }
    let (mut low, mut high) = (1, 2);
    while !enough(high) {
        if high >= MOST {
            return None;
        }
        (low, high) = (high, high * 2);
    }
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        if enough(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

/// The difference of means that this number of runs per arm finds with four chances in five.
pub fn detectable(design: Design, deviation: f64, runs: usize, level: f64) -> f64 {
    if runs < 2 {
        return f64::INFINITY;
    }
    let degrees = design.degrees(runs);
    let reach = t_quantile(f64::midpoint(1.0, level), degrees) + t_quantile(POWER, degrees);
    reach * deviation * design.error(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::reference::numbers;

    #[test]
    fn numbers_of_runs_are_those_of_statsmodels() {
        for row in numbers("power") {
            let found = runs_needed(Design::Apart, row[0], row[1], 0.95).unwrap() as f64;
            assert!((found - row[2].ceil()).abs() <= 1.0, "{row:?}: {found}");
        }
    }

    #[test]
    fn rounds_need_as_many_as_one_sample_of_differences() {
        // statsmodels' TTestPower gives 9.94 for a difference of one spread; the order costs one more
        assert_eq!(runs_needed(Design::Rounds, 1.0, 1.0, 0.95), Some(11));
        assert!(
            detectable(Design::Rounds, 1.0, 3, 0.95) > detectable(Design::Rounds, 1.0, 4, 0.95)
        );
    }

    #[test]
    fn what_cannot_be_shown_has_no_number() {
        assert_eq!(runs_needed(Design::Apart, 1.0, 0.0, 0.95), None);
        assert_eq!(runs_needed(Design::Apart, 1.0, 1e-9, 0.95), None);
        assert_eq!(runs_needed(Design::Apart, f64::NAN, 1.0, 0.95), None);
        assert_eq!(runs_needed(Design::Apart, 0.0, 1.0, 0.95), Some(2));
        assert!(detectable(Design::Apart, 1.0, 1, 0.95).is_infinite());
    }
}
