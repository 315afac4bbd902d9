//! A rate that changes while the run lasts.

use super::{Departure, Gaps, LoadState, Pace};
use crate::clock::Nanos;

/// Arrivals whose rate moves from one value to another over a time, then stays.
pub struct Ramp {
    from: f64,
    to: f64,
    over: f64,
    gaps: Gaps,
    /// Mean arrivals until the newest one: the ramp in a time scale in which its rate is one.
    elapsed: Option<f64>,
}

impl Ramp {
    /// A ramp between two rates (requests per second) over so many seconds.
    ///
    /// # Panics
    /// Unless both rates and the time are positive.
    pub fn new(from: f64, to: f64, over: f64, gaps: Gaps) -> Self {
        assert!(
            from > 0.0 && to > 0.0 && over > 0.0,
            "rates and times are positive"
        );
        Self {
            from,
            to,
            over,
            gaps,
            elapsed: None,
        }
    }

    /// The second at which this many arrivals are to be expected.
    fn second(&self, arrivals: f64) -> f64 {
        let on_ramp = f64::midpoint(self.from, self.to) * self.over;
        if arrivals >= on_ramp {
            return self.over + (arrivals - on_ramp) / self.to;
        }
        let slope = (self.to - self.from) / self.over;
        if slope == 0.0 {
            return arrivals / self.from;
        }
        ((self.from * self.from + 2.0 * slope * arrivals).sqrt() - self.from) / slope
    }
}

impl Pace for Ramp {
    fn next(&mut self, state: &LoadState) -> Departure {
        let arrivals = match self.elapsed {
            None => 0.0,
            Some(elapsed) => elapsed + self.gaps.next(1.0),
        };
        self.elapsed = Some(arrivals);
        Departure::At(Nanos(state.started.0).plus_seconds(self.second(arrivals)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(mut ramp: Ramp, count: usize) -> Vec<f64> {
        let state = LoadState::default();
        (0..count)
            .map(|_| match ramp.next(&state) {
                Departure::At(due) => due.seconds(),
                Departure::WhenFewerThan(_) => panic!("a ramp has moments"),
            })
            .collect()
    }

    #[test]
    fn arrivals_come_closer_while_the_rate_climbs_and_then_keep_their_distance() {
        // from 2/s to 10/s over 5 s: 30 arrivals on the ramp, then one every 100 ms
        let due = seconds(Ramp::new(2.0, 10.0, 5.0, Gaps::Constant), 41);
        assert!(
            (due[0]).abs() < 1e-9 && (due[30] - 5.0).abs() < 1e-9 && (due[40] - 6.0).abs() < 1e-9
        );
        let gaps: Vec<f64> = due.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps[..30].windows(2).all(|pair| pair[1] < pair[0]));
        assert!((gaps[35] - 0.1).abs() < 1e-9);
    }

    #[test]
    fn a_ramp_may_fall_or_stay() {
        let falling = seconds(Ramp::new(10.0, 2.0, 5.0, Gaps::Constant), 31);
        assert!((falling[30] - 5.0).abs() < 1e-6);
        let level = seconds(Ramp::new(4.0, 4.0, 1.0, Gaps::Constant), 9);
        assert!((level[8] - 2.0).abs() < 1e-9);
    }
}
