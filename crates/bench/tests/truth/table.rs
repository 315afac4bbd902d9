//! Figures worked out from the server's log, with arithmetic of its own.

use super::server::Seen;
use serde_json::Value;

/// What the server's log says about a run.
pub(super) struct Truth<'a> {
    /// Requests in the order of arrival, by session.
    pub(super) sessions: Vec<&'a [Seen]>,
    /// When each request of the first session was due, where the schedule says so.
    pub(super) due: Option<Vec<f64>>,
}

impl Truth<'_> {
    fn all(&self) -> impl Iterator<Item = &Seen> {
        self.sessions.iter().flat_map(|session| session.iter())
    }

    fn good(&self) -> Vec<&Seen> {
        self.all().filter(|seen| seen.is_ok()).collect()
    }

    /// From the first request to the last end of each session.
    fn duration(&self) -> f64 {
        let of = |session: &&[Seen]| {
            let last = session.iter().map(|seen| seen.end).fold(0.0, f64::max);
            last - session[0].read
        };
        self.sessions.iter().map(of).sum()
    }

    /// Holds every count and every time of a result line against the log.
    pub(super) fn check(&self, result: &Value, room: Room) {
        let good = self.good();
        let sent = self.all().count();
        same(result, "sent", sent);
        same(result, "completed", good.len());
        same(result, "failed", sent - good.len());
        let output: u64 = good.iter().map(|seen| seen.tokens()).sum();
        let input = 10 * good.len();
        same(result, "total_output_tokens", output as usize);
        same(result, "total_input_tokens_server", input);
        let duration = self.duration();
        close(result, "duration", duration, LONG);
        for (key, count) in [
            ("request_throughput", good.len() as f64),
            ("output_throughput", output as f64),
            ("input_throughput", input as f64),
            ("total_throughput", (output as usize + input) as f64),
        ] {
            close(result, key, count / duration, LONG);
        }
        let hits = &result["prefix_cache"]["hit_rate"];
        assert!(
            (hits.as_f64().unwrap() - 0.4).abs() < 1e-9,
            "hit rate {hits}"
        );
        let each = |time: fn(&Seen) -> f64| good.iter().map(|seen| time(seen)).collect();
        spread(result, "ttft", each(Seen::ttft), room);
        spread(result, "e2e_latency", each(Seen::e2e), room);
        spread(result, "tpot", each(Seen::tpot), room);
        spread(
            result,
            "itl",
            good.iter().flat_map(|seen| seen.gaps()).collect(),
            room,
        );
        self.check_schedule(result, room);
        if self.sessions.len() == 1 {
            self.check_load(result, duration);
        }
    }

    /// Times from when a request was due: from when it was read, where that is when it was due.
    fn check_schedule(&self, result: &Value, room: Room) {
        let due = |place: usize, seen: &Seen| match &self.due {
            Some(due) => due[place],
            None => seen.read,
        };
        let all: Vec<(f64, &Seen)> = self
            .all()
            .enumerate()
            .filter(|(_, seen)| seen.is_ok())
            .map(|(place, seen)| (due(place, seen), seen))
            .collect();
        let each =
            |time: fn(f64, &Seen) -> f64| all.iter().map(|(due, seen)| time(*due, seen)).collect();
        spread(
            result,
            "scheduled_ttft",
            each(|due, seen| seen.events[0].0 - due),
            room,
        );
        spread(
            result,
            "scheduled_e2e_latency",
            each(|due, seen| seen.end - due),
            room,
        );
        spread(result, "queue", each(|due, seen| seen.read - due), room);
    }

    /// What needs all requests that were under way.
    fn check_load(&self, result: &Value, duration: f64) {
        let all: Vec<&Seen> = self.all().collect();
        let under_way: f64 = all.iter().map(|seen| seen.e2e()).sum();
        close(result, "concurrency", under_way / duration, LONG);
        let at = |moment: f64| {
            let open = |seen: &&&Seen| seen.read <= moment && moment < seen.end;
            all.iter().filter(open).count()
        };
        let most = all.iter().map(|seen| at(seen.read)).max().unwrap();
        let found = result["max_concurrent_requests"].as_u64().unwrap() as usize;
        // A request may still be under way to the server when another has just ended.
        assert!(
            found.abs_diff(most) <= most / 20,
            "peak of {found}, the server saw {most}"
        );
        let mut arrivals: Vec<(f64, u64)> = self
            .good()
            .iter()
            .flat_map(|seen| seen.events.clone())
            .collect();
        arrivals.sort_by(|a, b| a.0.total_cmp(&b.0));
        let second = |to: f64| {
            let inside = arrivals
                .iter()
                .filter(|(at, _)| to - 1.0 < *at && *at <= to);
            inside.map(|(_, tokens)| tokens).sum::<u64>()
        };
        let peak = arrivals
            .iter()
            .step_by(7)
            .map(|(at, _)| second(*at))
            .max()
            .unwrap();
        close(result, "max_output_tokens_per_s", peak as f64, 0.04);
        if all.len() > 1 {
            let span = all[all.len() - 1].read - all[0].read;
            let rate = (all.len() - 1) as f64 / span;
            // A burst has no rate worth the name: it lasts as long as sending takes.
            if span > 0.3 {
                close(result, "achieved_request_rate", rate, LONG);
            }
        }
    }
}

/// The share by which figures of a whole run may differ.
const LONG: f64 = 0.02;

/// How far a figure may be from the truth: for the way of bytes between two processes, and for
/// moments in which the machine did something else.
#[derive(Clone, Copy)]
pub(super) struct Room {
    /// Milliseconds for means and medians.
    pub(super) middle: f64,
    /// Milliseconds for tails.
    pub(super) tail: f64,
}

fn same(result: &Value, key: &str, truth: usize) {
    assert_eq!(result[key].as_u64(), Some(truth as u64), "{key}");
}

pub(super) fn close(result: &Value, key: &str, truth: f64, share: f64) {
    let found = result[key].as_f64();
    let found = found.unwrap_or_else(|| panic!("{key} is {}", result[key]));
    assert!(
        (found / truth - 1.0).abs() <= share,
        "{key} is {found}, the server says {truth}"
    );
}

/// Holds seven figures of one kind of time against the truth.
fn spread(result: &Value, name: &str, mut truth: Vec<f64>, room: Room) {
    truth.sort_by(f64::total_cmp);
    let count = truth.len() as f64;
    let mean = truth.iter().sum::<f64>() / count;
    let square = truth
        .iter()
        .map(|value| (value - mean) * (value - mean))
        .sum::<f64>()
        / count;
    let at = |share: f64| {
        let rank = share * (count - 1.0);
        let (low, part) = (rank as usize, rank.fract());
        let high = (low + 1).min(truth.len() - 1);
        truth[low] * (1.0 - part) + truth[high] * part
    };
    for (kind, value, room) in [
        ("mean", mean, room.middle),
        ("median", at(0.5), room.middle),
        ("std", square.sqrt(), room.tail),
        ("p90", at(0.9), room.tail),
        ("p95", at(0.95), room.tail),
        ("p99", at(0.99), room.tail),
        ("max", at(1.0), 2.0 * room.tail),
    ] {
        let key = format!("{kind}_{name}_ms");
        let found = result[&key]
            .as_f64()
            .unwrap_or_else(|| panic!("{key} is {}", result[&key]));
        let truth = value * 1e3;
        let room = room.max(truth * 0.01);
        assert!(
            (found - truth).abs() <= room,
            "{key} is {found}, the server says {truth}"
        );
    }
}
