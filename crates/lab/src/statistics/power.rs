//! How many runs show a difference, and which difference so many runs show.

use super::special::t_quantile;

/// The chance with which a difference that is there shall be found.
const POWER: f64 = 0.8;
/// More runs than this are not worth a number.
const MOST: usize = 100_000;

/// Runs per arm that find a difference of means with four chances in five, when single runs spread
/// by `deviation`. Nothing when it would be more than a hundred thousand, or nothing is asked.
pub fn runs_needed(deviation: f64, difference: f64, level: f64) -> Option<usize> {
    let enough = |runs: usize| detectable(deviation, runs, level) <= difference.abs();
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

/// The difference of means that so many runs per arm find with four chances in five.
pub fn detectable(deviation: f64, runs: usize, level: f64) -> f64 {
    if runs < 2 {
        return f64::INFINITY;
    }
    let degrees = (2 * runs - 2) as f64;
    let reach = t_quantile(f64::midpoint(1.0, level), degrees) + t_quantile(POWER, degrees);
    reach * deviation * (2.0 / runs as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::reference::numbers;

    #[test]
    fn numbers_of_runs_are_those_of_statsmodels() {
        for row in numbers("power") {
            let found = runs_needed(row[0], row[1], 0.95).unwrap() as f64;
            assert!((found - row[2].ceil()).abs() <= 1.0, "{row:?}: {found}");
        }
    }

    #[test]
    fn what_cannot_be_shown_has_no_number() {
        assert_eq!(runs_needed(1.0, 0.0, 0.95), None);
        assert_eq!(runs_needed(1.0, 1e-9, 0.95), None);
        assert_eq!(runs_needed(f64::NAN, 1.0, 0.95), None);
        assert_eq!(runs_needed(0.0, 1.0, 0.95), Some(2));
        assert!(detectable(1.0, 1, 0.95).is_infinite());
    }
}
