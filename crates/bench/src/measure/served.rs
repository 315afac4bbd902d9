//! Whether a server kept up with the rate of a schedule.

use crate::clock::Nanos;
use crate::record::{Failure, RequestRecord};

/// A rate means nothing below this many requests.
const ENOUGH: usize = 50;

/// Requests per second that a server got through while they were due at `rate` on average;
/// nothing where there are too few to tell.
///
/// The k-th end follows the k-th due moment at a distance that stays where a server keeps up and
/// grows where it does not. Both are taken in their own order, so that no single latency counts.
pub fn served_rate(records: &[RequestRecord]) -> Option<f64> {
    let ended = records
        .iter()
        .filter(|record| record.failure != Some(Failure::Abandoned));
    let (mut dues, mut ends): (Vec<Nanos>, Vec<Nanos>) = ended
        .map(|record| (record.scheduled, record.finished))
        .unzip();
    if dues.len() < ENOUGH {
        return None;
    }
    dues.sort_unstable();
    ends.sort_unstable();
    let part = |from: usize, to: usize| {
        let places = dues.len() * from / 100..dues.len() * to / 100;
        let count = places.len() as f64;
        let due = places
            .clone()
            .map(|place| dues[place].seconds())
            .sum::<f64>()
            / count;
        let end = places.map(|place| ends[place].seconds()).sum::<f64>() / count;
        (due, end)
    };
    // Not the first requests, which found an idle server, and not the last, which leave one.
    let ((early_due, early_end), (late_due, late_end)) = (part(25, 50), part(70, 95));
    let requests = dues.len() as f64 * 0.45;
    let served = requests / (late_end - early_end).max(late_due - early_due);
    served.is_finite().then_some(served)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Asked, Due};

    /// Arrivals at `rate` at a server of one place that takes `seconds(number)` each.
    fn queue(count: usize, rate: f64, seconds: impl Fn(usize) -> f64) -> Vec<RequestRecord> {
        let mut free = 0.0_f64;
        (0..count)
            .map(|number| {
                let due = number as f64 / rate;
                free = free.max(due) + seconds(number);
                let at = |moment: f64| Nanos((moment * 1e9) as u64);
                let (due, asked) = (Due::at(at(due)), Asked::default());
                let mut record = RequestRecord::begun(number, 0, due, due.released, asked);
                record.finished = at(free);
                record
            })
            .collect()
    }

    #[test]
    fn a_server_that_is_outrun_shows_the_rate_it_serves() {
        for (rate, serves, truth) in [(40.0, 20.0, 20.0), (25.0, 19.5, 19.5), (10.0, 20.0, 10.0)] {
            let found = served_rate(&queue(400, rate, |_| 1.0 / serves)).unwrap();
            assert!((found / truth - 1.0).abs() < 0.01, "{found} is not {truth}");
        }
    }

    #[test]
    fn requests_of_unequal_length_are_no_growing_queue() {
        // four in five take 10 ms, one takes 100 ms: 28 ms on average, at 25 a second
        let seconds = |number: usize| if number.is_multiple_of(5) { 0.1 } else { 0.01 };
        let found = served_rate(&queue(500, 25.0, seconds)).unwrap();
        assert!((found / 25.0 - 1.0).abs() < 0.02, "{found}");
    }

    #[test]
    fn few_requests_tell_nothing() {
        assert_eq!(served_rate(&queue(49, 40.0, |_| 0.05)), None);
        assert_eq!(served_rate(&[]), None);
    }
}
