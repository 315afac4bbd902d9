use std::time::Duration;

/// Parts of an octave that are told apart: figures are right to an eighth.
const PARTS: u32 = 8;
/// Octaves of microseconds: up to an hour.
const OCTAVES: usize = 32;

/// How often which time was seen, in a fixed amount of memory.
#[derive(Clone, Debug)]
pub struct Spread {
    counts: [u64; OCTAVES * PARTS as usize],
    count: u64,
    longest: Duration,
}

impl Default for Spread {
    fn default() -> Self {
        Self {
            counts: [0; OCTAVES * PARTS as usize],
            count: 0,
            longest: Duration::ZERO,
        }
    }
}

impl Spread {
    pub(crate) fn add(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let last = self.counts.len() - 1;
        self.counts[part_of(micros).min(last)] += 1;
        self.count += 1;
        self.longest = self.longest.max(time);
    }

    /// How many times were seen.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest time of all.
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// The time that a share of all did not exceed, rounded up by at most an eighth.
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = (share * self.count as f64).ceil() as u64;
        let mut seen = 0;
        for (part, &count) in self.counts.iter().enumerate() {
            seen += count;
            if count > 0 && seen >= wanted {
                return Duration::from_micros(end_of(part)).min(self.longest);
            }
        }
        self.longest
    }
}

/// The part that a number falls into: the first eight one by one, then eight an octave.
fn part_of(micros: u64) -> usize {
    if micros < u64::from(PARTS) {
        return micros as usize;
    }
    let octave = micros.ilog2() - PARTS.ilog2();
    let within = (micros >> octave) as usize - PARTS as usize;
    (octave as usize + 1) * PARTS as usize + within
}

/// The largest number of a part.
fn end_of(part: usize) -> u64 {
    let parts = PARTS as usize;
    if part < parts {
        return part as u64;
    }
    let (octave, within) = (part / parts - 1, part % parts);
    (((parts + within + 1) as u64) << octave) - 1
}

/// Generating steps beside the least that they could take.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// Steps.
    pub steps: u64,
    /// Seconds they took, from the outcome before to their own.
    pub seconds: f64,
    /// Seconds that reading from memory alone takes; zero when that is not known.
    pub floor_seconds: f64,
}

impl Measured {
    pub(crate) fn add(&mut self, time: Duration, floor: f64) {
        self.steps += 1;
        self.seconds += time.as_secs_f64();
        self.floor_seconds += floor;
    }

    /// The floor as a share of what was measured; `None` when either is not known.
    pub fn share(&self) -> Option<f64> {
        (self.seconds > 0.0 && self.floor_seconds > 0.0).then(|| self.floor_seconds / self.seconds)
    }
}

/// Where the time of steps goes, since the engine was started.
#[derive(Clone, Debug, Default)]
pub struct StepTimes {
    /// Generating steps of the last whole logging interval.
    pub last_interval: Measured,
    /// All generating steps.
    pub decode: Measured,
    /// Work of the engine thread a step: commands, planning, committing and sending.
    pub host: Spread,
    /// By how much a generating step differed from the one right before it.
    pub jitter: Spread,
    /// The generating steps of the interval that runs.
    interval: Measured,
    /// How long the step before took, when it was a generating one.
    before: Option<Duration>,
}

impl StepTimes {
    /// Takes down a step that only generates.
    pub(crate) fn decoded(&mut self, time: Duration, floor: f64) {
        self.decode.add(time, floor);
        self.interval.add(time, floor);
        if let Some(before) = self.before.replace(time) {
            self.jitter.add(time.abs_diff(before));
        }
    }

    /// What comes next does not follow a generating step.
    pub(crate) fn interrupt(&mut self) {
        self.before = None;
    }

    pub(crate) fn end_interval(&mut self) -> Measured {
        self.last_interval = std::mem::take(&mut self.interval);
        self.last_interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_falls_into_a_part_that_ends_at_most_an_eighth_later() {
        for micros in (0..4096).chain([123_456, 7_654_321, 3_600_000_000]) {
            let end = end_of(part_of(micros));
            assert!(
                end >= micros && end <= micros + micros / 8,
                "{micros} {end}"
            );
            assert!(part_of(end) == part_of(micros) && part_of(end + 1) == part_of(micros) + 1);
        }
    }

    #[test]
    fn quantiles_are_right_to_an_eighth_and_the_longest_is_exact() {
        let mut spread = Spread::default();
        for micros in 1..=10_000 {
            spread.add(Duration::from_micros(micros));
        }
        for (share, expected) in [(0.5, 5000.0), (0.99, 9900.0), (0.999, 9990.0)] {
            let found = spread.quantile(share).as_secs_f64() * 1e6;
            assert!((expected..expected * 1.125).contains(&found), "{found}");
        }
        assert_eq!(spread.longest(), Duration::from_millis(10));
        assert_eq!(Spread::default().quantile(0.999), Duration::ZERO);
    }

    #[test]
    fn jitter_is_between_generating_steps_that_follow_each_other() {
        let mut times = StepTimes::default();
        let millis = Duration::from_millis;
        times.decoded(millis(4), 0.003);
        times.decoded(millis(9), 0.003);
        times.interrupt();
        times.decoded(millis(90), 0.003);
        assert_eq!(times.jitter.count(), 1);
        assert_eq!(times.jitter.longest(), millis(5));
        let interval = times.end_interval();
        assert_eq!((interval.steps, times.decode.steps), (3, 3));
        assert!((interval.share().unwrap() - 0.009 / 0.103).abs() < 1e-9);
        assert_eq!(times.end_interval().share(), None);
    }
}
