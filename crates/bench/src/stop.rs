//! When a load ends before its dataset does.

use crate::pace::LoadState;

/// Reasons to send no more; any of them is enough.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StopRules {
    /// After this many requests were due.
    pub count: Option<usize>,
    /// After this many seconds.
    pub seconds: Option<f64>,
    /// When more than this share of the finished requests failed.
    pub failed_share: Option<f64>,
}

/// Which rule ended a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Enough requests.
    Count,
    /// Enough time.
    Time,
    /// Too many failures.
    Failures,
}

/// A share of failures means nothing before this many requests are done.
const ENOUGH_TO_JUDGE: usize = 20;

impl StopRules {
    /// The rule that ends the load now, if one does.
    pub fn reached(&self, state: &LoadState) -> Option<Stopped> {
        let enough = |limit: Option<usize>| limit.is_some_and(|limit| state.departed >= limit);
        let seconds = state.now.seconds_since(state.started);
        let share = state.failed as f64 / state.finished.max(1) as f64;
        if enough(self.count) {
            Some(Stopped::Count)
        } else if self.seconds.is_some_and(|limit| seconds >= limit) {
            Some(Stopped::Time)
        } else if state.finished >= ENOUGH_TO_JUDGE
            && self.failed_share.is_some_and(|limit| share > limit)
        {
            Some(Stopped::Failures)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Nanos;

    #[test]
    fn each_rule_stops_by_itself() {
        let state = LoadState {
            now: Nanos(10_000_000_000),
            departed: 50,
            finished: 40,
            failed: 10,
            ..LoadState::default()
        };
        let reached = |rules: StopRules| rules.reached(&state);
        assert_eq!(reached(StopRules::default()), None);
        let count = |count| StopRules {
            count: Some(count),
            ..StopRules::default()
        };
        assert_eq!(
            (reached(count(50)), reached(count(51))),
            (Some(Stopped::Count), None)
        );
        let time = |seconds| StopRules {
            seconds: Some(seconds),
            ..StopRules::default()
        };
        assert_eq!(
            (reached(time(10.0)), reached(time(10.1))),
            (Some(Stopped::Time), None)
        );
        let share = |share| StopRules {
            failed_share: Some(share),
            ..StopRules::default()
        };
        assert_eq!(
            (reached(share(0.2)), reached(share(0.25))),
            (Some(Stopped::Failures), None)
        );
    }

    #[test]
    fn the_first_failures_are_not_yet_a_share() {
        let state = LoadState {
            finished: 3,
            failed: 3,
            ..LoadState::default()
        };
        let rules = StopRules {
            failed_share: Some(0.5),
            ..StopRules::default()
        };
        assert_eq!(rules.reached(&state), None);
    }
}
