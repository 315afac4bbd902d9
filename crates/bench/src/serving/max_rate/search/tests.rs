//! Searches on queues whose highest good rate is known from far longer runs.

use super::*;
use crate::random::NumpyRandom;

/// A server of some places: Poisson arrivals, and each request takes the same time.
#[derive(Clone, Copy)]
struct Queue {
    places: usize,
    service: f64,
    /// The objective: a request waits no longer than this.
    bound: f64,
    share: f64,
}

impl Queue {
    /// Whether each of so many requests met the objective.
    fn run(&self, rate: f64, count: usize, random: &mut NumpyRandom) -> Vec<bool> {
        let mut free = vec![0.0_f64; self.places];
        let mut now = 0.0;
        (0..count)
            .map(|_| {
                now += random.exponential(1.0 / rate);
                let place = free.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
                let start = place.max(now);
                *place = start + self.service;
                start - now <= self.bound
            })
            .collect()
    }

    /// The highest rate that meets the share, by runs that are a thousand times as long.
    fn truth(&self) -> f64 {
        let (mut good, mut bad) = (0.1 / self.service, self.places as f64 / self.service);
        for _ in 0..10 {
            let rate = (good * bad).sqrt();
            let met = self.run(rate, 200_000, &mut NumpyRandom::seeded(1));
            let share = met.iter().filter(|met| **met).count() as f64 / met.len() as f64;
            if share >= self.share {
                good = rate;
            } else {
                bad = rate;
            }
        }
        (good * bad).sqrt()
    }

    fn search(&self, first: f64, seed: u32) -> Search {
        let mut random = NumpyRandom::seeded(seed);
        let mut search = Search::starting_at(first, self.share);
        while let Some(rate) = search.next() {
            let count = run_size(rate, 20.0, self.share);
            search.learn(rate, &self.run(rate, count, &mut random));
        }
        search
    }
}

/// M/D/2: one with room for waiting, one with little, one with a strict share.
const QUEUES: [Queue; 3] = [
    Queue {
        places: 2,
        service: 0.1,
        bound: 0.1,
        share: 0.9,
    },
    Queue {
        places: 2,
        service: 0.1,
        bound: 0.2,
        share: 0.95,
    },
    Queue {
        places: 2,
        service: 0.1,
        bound: 0.1,
        share: 0.99,
    },
];

#[test]
fn the_interval_holds_the_truth_as_often_as_it_says() {
    const SEARCHES: u32 = 100;
    for queue in QUEUES {
        let truth = queue.truth();
        let found: Vec<Interval> = (0..SEARCHES)
            .map(|seed| queue.search(1.0, seed).found())
            .collect();
        let holds = |interval: &&Interval| {
            interval.good.is_none_or(|good| good <= truth)
                && interval.bad.is_none_or(|bad| bad >= truth)
        };
        let held = found.iter().filter(holds).count();
        assert!(
            held as f64 >= CONFIDENCE * f64::from(SEARCHES),
            "{held} of {SEARCHES} hold {truth:.2} at {}",
            queue.share
        );
        // An interval that says nothing holds everything.
        let mut widths: Vec<f64> = found
            .iter()
            .filter_map(|interval| Some(interval.bad? / interval.good?))
            .collect();
        widths.sort_by(f64::total_cmp);
        let most = if queue.share > 0.98 { 2.1 } else { 1.5 };
        assert!(
            widths.len() > 80,
            "{} of {SEARCHES} have two ends",
            widths.len()
        );
        assert!(widths[widths.len() / 2] < most, "{widths:?}");
    }
}

#[test]
fn a_server_with_a_sharp_edge_is_found_from_either_side() {
    for (first, limit) in [(1.0, 13.7), (100.0, 13.7), (13.0, 13.7), (1.0, 0.3)] {
        let mut search = Search::starting_at(first, 0.95);
        while let Some(rate) = search.next() {
            let count = run_size(rate, 20.0, 0.95);
            search.learn(rate, &vec![rate <= limit; count]);
        }
        let Interval { good, bad } = search.found();
        let (good, bad) = (good.unwrap(), bad.unwrap());
        assert!(
            good <= limit && limit < bad,
            "{first}: {good} to {bad} for {limit}"
        );
        assert!(bad / good <= CLOSE, "{first}: {good} to {bad} for {limit}");
        assert!(search.runs <= MOST_RUNS);
    }
}

#[test]
fn few_requests_show_nothing_however_good_they_look() {
    let mut search = Search::starting_at(1.0, 0.99);
    while let Some(rate) = search.next() {
        search.learn(rate, &[rate < 10.0; 20]);
    }
    assert!(search.saw_good());
    assert_eq!(search.found().good, None);
    assert!(needed(0.99) > 300 && needed(0.9) < 40);
}

#[test]
fn a_server_that_never_meets_them_ends_the_search() {
    let mut search = Search::starting_at(1.0, 0.9);
    while let Some(rate) = search.next() {
        search.learn(rate, &[false; 40]);
    }
    assert!(!search.saw_good());
    assert_eq!(search.found().good, None);
    assert!(search.found().bad.unwrap() < 0.1);
}
