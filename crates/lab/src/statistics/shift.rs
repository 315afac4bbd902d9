//! The point of a history at which its level changed.

use super::draw::Draw;
use super::sample::{mean, variance};

/// Runs that must lie on either side.
const AT_LEAST: usize = 2;
/// Orders that the history is compared with.
const ORDERS: usize = 1000;
const SEED: u64 = 31;

/// A change of level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// The first run of the new level.
    pub at: usize,
    /// The mean before.
    pub before: f64,
    /// The mean from there on.
    pub after: f64,
    /// The chance of such a change if the order of runs meant nothing.
    pub p: f64,
}

/// The most likely change of level in a history, oldest first; nothing for short ones.
pub fn shift(values: &[f64]) -> Option<Shift> {
    if values.len() < 2 * AT_LEAST + 1 || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let (at, strength) = strongest(values)?;
    let mut draw = Draw::seeded(SEED);
    let mut shuffled = values.to_vec();
    let as_strong = (0..ORDERS).filter(|_| {
        draw.shuffle(&mut shuffled);
        strongest(&shuffled).is_some_and(|(_, other)| other >= strength)
    });
    Some(Shift {
        at,
        before: mean(&values[..at]),
        after: mean(&values[at..]),
        p: (as_strong.count() + 1) as f64 / (ORDERS + 1) as f64,
    })
}

/// Where two parts differ most, measured in their pooled spread.
fn strongest(values: &[f64]) -> Option<(usize, f64)> {
    let count = values.len();
    let strengths = (AT_LEAST..=count - AT_LEAST).map(|at| {
        let (before, after) = values.split_at(at);
        let (n, m) = (before.len() as f64, after.len() as f64);
        let pooled = ((n - 1.0) * variance(before) + (m - 1.0) * variance(after)) / (n + m - 2.0);
        let error = (pooled * (1.0 / n + 1.0 / m)).sqrt();
        let apart = (mean(after) - mean(before)).abs();
        (at, if error > 0.0 { apart / error } else { 0.0 })
    });
    strengths.max_by(|(_, one), (_, two)| one.total_cmp(two))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_in_a_history_is_found_where_it_is() {
        let mut draw = Draw::seeded(2);
        let mut history = |steps: usize| -> Vec<f64> {
            (0..16)
                .map(|at| {
                    let level = if at >= steps { 95.0 } else { 100.0 };
                    level + draw.normal()
                })
                .collect()
        };
        let found = shift(&history(9)).unwrap();
        assert_eq!(found.at, 9);
        assert!(found.p < 0.01, "{found:?}");
        let none = shift(&history(100)).unwrap();
        assert!(none.p > 0.05, "{none:?}");
        assert_eq!(shift(&[1.0, 2.0, 3.0]), None);
    }
}
