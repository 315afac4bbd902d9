//! Arrivals at a mean rate: Poisson, constant, or in between and beyond.

use super::{Departure, LoadState, Pace};
use crate::clock::Nanos;
use crate::random::NumpyRandom;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, Gamma};
use std::iter::Cycle;
use std::vec::IntoIter;

/// Where the gaps between arrivals come from.
pub enum Gaps {
    /// A Poisson process drawn from the reference's stream.
    Exponential(NumpyRandom),
    /// Gaps of mean one that were drawn before the run, from the first again when they are used up.
    Drawn(Cycle<IntoIter<f64>>),
    /// All alike.
    Constant,
    /// Gamma-distributed: `burstiness` below one clusters arrivals, above one evens them out.
    Gamma(Gamma<f64>, Box<StdRng>),
}

impl Gaps {
    /// Gamma gaps of mean one; `None` unless the burstiness is a positive number.
    pub fn gamma(burstiness: f64, seed: u32) -> Option<Self> {
        let gamma = Gamma::new(burstiness, 1.0 / burstiness).ok()?;
        Some(Self::Gamma(
            gamma,
            Box::new(StdRng::seed_from_u64(seed.into())),
        ))
    }

    /// The next gap in seconds, at a mean of so many.
    pub(super) fn next(&mut self, mean: f64) -> f64 {
        match self {
            Self::Exponential(random) => random.exponential(mean),
            Self::Drawn(gaps) => gaps.next().unwrap_or_default() * mean,
            Self::Constant => mean,
            Self::Gamma(gamma, random) => gamma.sample(random) * mean,
        }
    }
}

/// What a gap is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// The previous arrival as it was due: lateness does not add up.
    Absolute,
    /// The previous arrival as it happened, as the reference sleeps: the rate sinks under load.
    Relative,
}

/// Arrivals at a mean rate; the first is at once.
pub struct Arrivals {
    gaps: Gaps,
    mean: f64,
    drift: Drift,
    due: Option<Nanos>,
}

impl Arrivals {
    /// Arrivals at this many requests per second.
    ///
    /// # Panics
    /// When the rate is not a positive number.
    pub fn new(rate: f64, gaps: Gaps, drift: Drift) -> Self {
        assert!(rate > 0.0, "a rate is positive");
        Self {
            gaps,
            mean: 1.0 / rate,
            drift,
            due: None,
        }
    }
}

impl Pace for Arrivals {
    fn next(&mut self, state: &LoadState) -> Departure {
        let due = match self.due {
            None => state.started,
            Some(previous) => {
                let from = match self.drift {
                    Drift::Absolute => previous,
                    Drift::Relative => state.last_departure,
                };
                from.plus_seconds(self.gaps.next(self.mean))
            }
        };
        self.due = Some(due);
        Departure::At(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dues(mut pace: Arrivals, count: usize, lateness: u64) -> Vec<f64> {
        let mut state = LoadState {
            started: Nanos(5_000_000_000),
            ..LoadState::default()
        };
        (0..count)
            .map(|_| {
                let Departure::At(due) = pace.next(&state) else {
                    panic!("arrivals have moments")
                };
                state.last_departure = Nanos(due.0 + lateness);
                due.seconds_since(state.started)
            })
            .collect()
    }

    #[test]
    fn poisson_gaps_are_those_of_the_reference() {
        let pace = Arrivals::new(
            20.0,
            Gaps::Exponential(NumpyRandom::seeded(1)),
            Drift::Absolute,
        );
        let dues = dues(pace, 4, 0);
        for (due, expected) in dues
            .iter()
            .zip([0.0, 0.026_980_292, 0.090_686_555, 0.090_692_274])
        {
            assert!((due - expected).abs() < 1e-8, "{dues:?}");
        }
    }

    #[test]
    fn lateness_adds_up_only_when_gaps_are_relative() {
        let late = 1_000_000;
        let absolute = dues(
            Arrivals::new(10.0, Gaps::Constant, Drift::Absolute),
            11,
            late,
        );
        assert!((absolute[10] - 1.0).abs() < 1e-9);
        let relative = dues(
            Arrivals::new(10.0, Gaps::Constant, Drift::Relative),
            11,
            late,
        );
        assert!((relative[10] - 1.01).abs() < 1e-9);
    }

    #[test]
    fn gamma_gaps_keep_the_rate_and_take_the_burstiness() {
        for burstiness in [0.25, 1.0, 4.0] {
            let gaps = Gaps::gamma(burstiness, 7).unwrap();
            let dues = dues(Arrivals::new(100.0, gaps, Drift::Absolute), 20_001, 0);
            let gaps: Vec<f64> = dues.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let variance =
                gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            assert!((mean * 100.0 - 1.0).abs() < 0.05, "mean gap {mean}");
            let spread = variance / (mean * mean) * burstiness;
            assert!(
                (spread - 1.0).abs() < 0.15,
                "burstiness {burstiness}: {spread}"
            );
        }
        assert!(Gaps::gamma(0.0, 1).is_none());
        assert!(Gaps::gamma(f64::NAN, 1).is_none());
    }
}
