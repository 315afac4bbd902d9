//! First runs that are worse than their repeats.

use super::sample::{mean, standard_deviation};
use super::special::t_quantile;
use crate::metric::Better;

/// A first run must be worse than every repeat by this share: a drift has no such step…
const WORSE_BY: f64 = 0.10;
/// …and by this one when a single repeat is all there is to hold it against.
const WORSE_THAN_ONE: f64 = 0.25;
/// …and further away than repeats are from each other, at this level.
const LEVEL: f64 = 0.95;

/// A first run that stands apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ColdStart {
    /// Its figure.
    pub first: f64,
    /// The mean of the later ones.
    pub later: f64,
}

/// Looks at the figures of one arm in the order they were measured.
pub fn cold_start(values: &[f64], better: Better) -> Option<ColdStart> {
    let (first, later) = values.split_first()?;
    if later.is_empty() || values.iter().any(|value| value.is_nan() || *value <= 0.0) {
        return None;
    }
    let logs: Vec<f64> = later.iter().map(|value| value.ln()).collect();
    let worse_than = |log: f64| match better {
        Better::Higher => Some(log - first.ln()),
        Better::Lower => Some(first.ln() - log),
        Better::Neither => None,
    };
    let than_mean = worse_than(mean(&logs))?;
    let gaps = logs.iter().filter_map(|log| worse_than(*log));
    let than_worst = gaps.fold(f64::INFINITY, f64::min);
    let cold = if logs.len() == 1 {
        than_worst > WORSE_THAN_ONE.ln_1p()
    } else {
        let count = logs.len() as f64;
        let spread = standard_deviation(&logs) * (1.0 + 1.0 / count).sqrt();
        than_worst > WORSE_BY.ln_1p() && than_mean > t_quantile(LEVEL, count - 1.0) * spread
    };
    cold.then(|| ColdStart {
        first: *first,
        later: mean(later),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_run_is_cold_when_it_is_far_below_its_repeats() {
        let cases: &[(&[f64], Better, bool)] = &[
            (&[1.48, 3.22, 3.24], Better::Higher, true),
            (&[2.29, 3.25, 3.23], Better::Higher, true),
            (&[5.68, 5.86, 5.62], Better::Higher, false),
            (&[5.55, 5.50, 5.74], Better::Higher, false),
            (&[112.42, 58.05, 60.21], Better::Lower, true),
            (&[58.05, 112.42, 60.21], Better::Lower, false),
            (&[3.0, 2.0, 2.1], Better::Higher, false),
            (&[1.0, 2.0], Better::Higher, true),
            (&[1.9, 2.0], Better::Higher, false),
            (&[1.0], Better::Higher, false),
            (&[], Better::Higher, false),
            (&[0.0, 1.0, 1.0], Better::Higher, false),
            (&[1.0, 9.0, 9.1], Better::Neither, false),
            // a drift: the first is far from the last, and near to the second
            (&[1.0, 1.05, 1.10, 1.15, 1.2, 1.25], Better::Higher, false),
        ];
        for (values, better, cold) in cases {
            assert_eq!(cold_start(values, *better).is_some(), *cold, "{values:?}");
        }
    }

    #[test]
    fn noise_is_hardly_ever_taken_for_cold() {
        let mut draw = super::super::Draw::seeded(11);
        let mut alarms = 0;
        for _ in 0..1000 {
            let values: Vec<f64> = (0..4).map(|_| (0.03 * draw.normal()).exp()).collect();
            alarms += usize::from(cold_start(&values, Better::Higher).is_some());
        }
        assert!(alarms <= 10, "{alarms} of 1000");
    }
}
