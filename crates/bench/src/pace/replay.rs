//! Arrivals at recorded moments.

use super::{Departure, LoadState, Pace};

/// Arrivals at given seconds after the start; rows beyond the last moment go at once.
pub struct Replay {
    seconds: std::vec::IntoIter<f64>,
}

impl Replay {
    /// Arrivals at these moments, one per request, in order.
    pub fn at(seconds: Vec<f64>) -> Self {
        Self {
            seconds: seconds.into_iter(),
        }
    }

    /// Arrivals of a trace: milliseconds on any clock, stretched by a factor.
    pub fn trace(milliseconds: &[f64], slowdown: f64) -> Self {
        let first = milliseconds.first().copied().unwrap_or_default();
        Self::at(
            milliseconds
                .iter()
                .map(|at| (at - first) / 1000.0 * slowdown)
                .collect(),
        )
    }
}

impl Pace for Replay {
    fn next(&mut self, state: &LoadState) -> Departure {
        let seconds = self.seconds.next().unwrap_or_default();
        Departure::At(state.started.plus_seconds(seconds.max(0.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Nanos;

    #[test]
    fn a_trace_starts_at_once_and_is_stretched() {
        let mut replay = Replay::trace(&[5000.0, 5000.0, 6500.0], 2.0);
        let state = LoadState {
            started: Nanos(7),
            ..LoadState::default()
        };
        for expected in [7, 7, 3_000_000_007] {
            assert_eq!(replay.next(&state), Departure::At(Nanos(expected)));
        }
    }
}
