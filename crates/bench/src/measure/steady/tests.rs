//! Scripted runs whose steady part is known beforehand.

use super::*;
use crate::measure::timing::{Arrival, CountSource};

const MS: u64 = 1_000_000;

/// A request sent and ended at these milliseconds, with a token every ten.
fn timing(sent: u64, finished: u64) -> Timing {
    let at = |moment: u64| Nanos(moment * MS);
    let seconds = (finished - sent) as f64 / 1e3;
    let arrivals: Vec<Arrival> = (sent + 10..=finished)
        .step_by(10)
        .map(|moment| Arrival {
            at: at(moment),
            tokens: 1,
        })
        .collect();
    Timing {
        sent: at(sent),
        scheduled: at(sent),
        finished: at(finished),
        queue: 0.0,
        ttft: 0.01,
        scheduled_ttft: 0.01,
        e2e: seconds,
        scheduled_e2e: seconds,
        output: arrivals.len() as u64,
        arrivals,
        source: CountSource::Server,
    }
}

/// A closed loop of `places` that serves `count` requests: each takes `latency(its number, its
/// start)` milliseconds, and the next follows after `pause`.
fn closed(
    places: usize,
    count: usize,
    pause: u64,
    latency: impl Fn(usize, u64) -> u64,
) -> Vec<Timing> {
    let mut free: Vec<u64> = (0..places as u64).collect();
    (0..count)
        .map(|number| {
            let place = (0..places).min_by_key(|place| free[*place]).unwrap();
            let sent = free[place];
            let finished = sent + latency(number, sent);
            free[place] = finished + pause;
            timing(sent, finished)
        })
        .collect()
}

fn steady(timings: &[Timing]) -> Result<Steady, NotSteady> {
    let spans: Vec<(Nanos, Nanos)> = timings
        .iter()
        .map(|timing| (timing.sent, timing.finished))
        .collect();
    Steady::of(Loop::Closed, &spans, timings)
}

fn close(found: f64, truth: f64, share: f64) {
    let off = (found / truth - 1.0).abs();
    assert!(off < share, "{found} is not {truth}");
}

#[test]
fn a_closed_loop_is_steady_from_its_ramp_up_to_its_drain() {
    // four at once, 360 ms each, 1 ms from one to the next: 4 / 0.361 a second
    let timings = closed(4, 40, 1, |_, _| 360);
    let found = steady(&timings).unwrap();
    assert_eq!(found.threshold, 4);
    close(found.seconds(), 3.606, 0.01);
    close(found.request_throughput, 4.0 / 0.361, 0.005);
    close(found.output_throughput, 4.0 * 36.0 / 0.361, 0.01);
    close(found.concurrency, 4.0 * 360.0 / 361.0, 0.005);
}

#[test]
fn lengths_that_differ_leave_the_truth_of_the_middle() {
    // latencies 100, 200, 300 ms in turn: 16 places serve 16 / 0.2 requests a second
    let timings = closed(16, 600, 0, |number, _| 100 + 100 * (number as u64 % 3));
    let found = steady(&timings).unwrap();
    close(found.request_throughput, 80.0, 0.01);
    close(found.concurrency, 16.0, 0.02);
    // the drain, in which less is under way, is outside
    let end = timings.iter().map(|timing| timing.finished).max().unwrap();
    assert!(found.to < end);
}

#[test]
fn a_stall_of_the_server_is_part_of_the_steady_run() {
    // whatever is under way at second 1 is held for two seconds
    let timings = closed(4, 200, 1, |_, sent| {
        if sent <= 1000 && 1000 < sent + 80 {
            2080
        } else {
            80
        }
    });
    let found = steady(&timings).unwrap();
    // 200 requests of 81 ms in four places, and two seconds of nothing
    let truth = 50.0 * 0.081 + 2.0;
    close(found.seconds(), truth, 0.02);
    close(found.request_throughput, 200.0 / truth, 0.02);
}

#[test]
fn a_pause_that_is_no_turnaround_ends_the_stretch() {
    // the client sends nothing for half a second in the middle
    let mut timings = closed(2, 60, 1, |_, _| 50);
    let late = closed(2, 40, 1, |_, _| 50);
    let begin = timings
        .iter()
        .map(|timing| timing.finished.0)
        .max()
        .unwrap()
        / MS
        + 500;
    timings.extend(
        late.iter()
            .map(|one| timing(begin + one.sent.0 / MS, begin + one.finished.0 / MS)),
    );
    let found = steady(&timings).unwrap();
    close(found.seconds(), 30.0 * 0.051, 0.05);
    close(found.request_throughput, 2.0 / 0.051, 0.02);
}

#[test]
fn what_cannot_be_told_is_refused_with_the_reason() {
    let few = steady(&closed(8, 16, 0, |_, _| 100)).unwrap_err();
    assert!(matches!(few, NotSteady::Few { wanted: 21, .. }), "{few:?}");
    // one straggler for ten times as long as all others took
    let mut timings = closed(4, 40, 0, |_, _| 10);
    timings.push(timing(100, 1100));
    let short = steady(&timings).unwrap_err();
    let words = short.to_string();
    assert!(words.contains("for 0.10 of 1.10 s"), "{words}");
    for (shape, why) in [
        (Loop::Open, NotSteady::Open),
        (Loop::Burst, NotSteady::Burst),
    ] {
        assert_eq!(Steady::of(shape, &[], &[]), Err(why));
    }
    let nothing = Steady::of(Loop::Closed, &[], &[]);
    assert!(
        matches!(nothing, Err(NotSteady::Short { .. })),
        "{nothing:?}"
    );
}
