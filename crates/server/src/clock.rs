use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use protocol::native::Timing;

use crate::metrics::StageSeconds;
use crate::sequence::Counts;

/// Seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    since_1970().as_secs()
}

fn since_1970() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// A moment, on the clock that never jumps and on the one people read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    instant: Instant,
    unix: f64,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self {
            instant: Instant::now(),
            unix: since_1970().as_secs_f64(),
        }
    }

    /// Seconds from `earlier` to this.
    pub(crate) fn since(self, earlier: Self) -> f64 {
        self.instant
            .saturating_duration_since(earlier.instant)
            .as_secs_f64()
    }
}

/// When things happened to a sequence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SequenceClock {
    pub(crate) received: Moment,
    pub(crate) queued: Moment,
    pub(crate) first_token: Option<Moment>,
    pub(crate) last_token: Option<Moment>,
}

impl SequenceClock {
    pub(crate) fn new(received: Moment) -> Self {
        Self {
            received,
            queued: Moment::now(),
            first_token: None,
            last_token: None,
        }
    }

    /// Tokens were seen now; returns the seconds since the last ones, or since the arrival.
    pub(crate) fn tick(&mut self) -> Tick {
        let now = Moment::now();
        let tick = match self.last_token {
            None => Tick::First(now.since(self.received)),
            Some(last) => Tick::Later(now.since(last)),
        };
        self.first_token.get_or_insert(now);
        self.last_token = Some(now);
        tick
    }

    /// How long the stages up to the first token took, so many seconds of it in the engine's queue.
    pub(crate) fn stages(&self, queue_seconds: f64) -> StageSeconds {
        let first = self.first_token.map(|first| first.since(self.queued));
        StageSeconds {
            request_process: self.queued.since(self.received),
            prefill_waiting: queue_seconds,
            prefill_forward: first.map(|seconds| (seconds - queue_seconds).max(0.0)),
        }
    }

    /// What a finished sequence says about its time; only the essential unless `detailed`.
    pub(crate) fn timing(&self, counts: &Counts, detailed: bool) -> Timing {
        let now = Moment::now();
        let end = self.last_token.unwrap_or(now);
        let mut timing = Timing {
            e2e_latency: end.since(self.received),
            response_sent_to_client_ts: now.unix,
            ..Timing::default()
        };
        if detailed {
            timing.queue_time = Some(counts.queue_seconds);
            timing.request_received_ts = Some(self.received.unix);
            timing.request_sent_to_scheduler_ts = Some(self.queued.unix);
            timing.prefill_finished_ts = self.first_token.map(|moment| moment.unix);
            timing.decode_finished_ts = self.last_token.map(|moment| moment.unix);
            timing.inference_time = Some(end.since(self.queued));
            let decoding = self.first_token.map_or(0.0, |first| end.since(first));
            let later = counts.completion_tokens.saturating_sub(1) as f64;
            timing.decode_throughput = (decoding > 0.0).then(|| later / decoding);
        }
        timing
    }
}

/// How long tokens took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Tick {
    /// The first, from the arrival of the request.
    First(f64),
    /// Later ones, from the ones before.
    Later(f64),
}

/// Date and time of day in UTC, as ISO 8601 writes them.
pub(crate) fn iso_now() -> String {
    iso(since_1970())
}

fn iso(since_1970: Duration) -> String {
    let (days, seconds) = (since_1970.as_secs() / 86_400, since_1970.as_secs() % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let micros = since_1970.subsec_micros();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}+00:00")
}

/// The Gregorian date of a day, counted from 1970. Years begin in March here, so that the leap day
/// is the last of its year.
fn date(days_since_1970: u64) -> (u64, u64, u64) {
    let days = days_since_1970 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let leap_days = day_of_era / 1460 + day_of_era / 146_096 - day_of_era / 36_524;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000000+00:00"),
            (951_782_399, "2000-02-28T23:59:59.000000+00:00"),
            (951_782_400, "2000-02-29T00:00:00.000000+00:00"),
            (951_868_800, "2000-03-01T00:00:00.000000+00:00"),
            (1_735_689_599, "2024-12-31T23:59:59.000000+00:00"),
            (1_763_179_200, "2025-11-15T04:00:00.000000+00:00"),
            (4_107_542_400, "2100-03-01T00:00:00.000000+00:00"),
        ] {
            assert_eq!(iso(Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn the_first_tokens_are_timed_from_the_arrival_and_later_ones_from_the_last() {
        let mut clock = SequenceClock::new(Moment::now());
        assert!(matches!(clock.tick(), Tick::First(seconds) if seconds >= 0.0));
        assert!(matches!(clock.tick(), Tick::Later(seconds) if seconds >= 0.0));
        let plain = clock.timing(&Counts::default(), false);
        assert_eq!(plain.request_received_ts, None);
        let detailed = clock.timing(&Counts::default(), true);
        assert!(
            detailed
                .inference_time
                .is_some_and(|time| time <= detailed.e2e_latency)
        );
    }

    #[test]
    fn the_time_to_the_first_token_is_the_sum_of_its_stages() {
        let mut clock = SequenceClock::new(Moment::now());
        assert_eq!(clock.stages(0.0).prefill_forward, None);
        let Tick::First(seconds) = clock.tick() else {
            panic!("the first token comes first");
        };
        let stages = clock.stages(0.0);
        let forward = stages.prefill_forward.expect("there was a token");
        assert!((stages.request_process + forward - seconds).abs() < 1e-6);
        // A queue that took longer than all of it is no reason for negative times.
        assert_eq!(clock.stages(1e3).prefill_forward, Some(0.0));
    }
}
