//! Warm-up that covers the shapes of the load and ends when the server is steady.

use super::error::ServingError;
use super::options::Options;
use super::progress::Silence;
use super::surroundings::Surroundings;
use crate::client::Client;
use crate::dataset::Row;
use crate::load::{self, Load, LoadOutcome};
use crate::measure::{mean, median};
use crate::pace::Burst;
use crate::stop::StopRules;
use std::sync::Arc;

/// The most rounds before the load starts whether the server is steady or not.
const MOST_ROUNDS: usize = 8;
/// Two rounds in a row are alike when their times differ by less than this share.
const ALIKE: f64 = 0.10;
/// Answers of warm-up requests are no longer than this.
const LONGEST_OUTPUT: u64 = 64;

/// What warm-up found.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WarmUp {
    /// Requests that were made.
    pub(super) requests: usize,
    /// Rounds over all shapes.
    pub(super) rounds: usize,
    /// Whether the last two rounds were alike.
    pub(super) steady: bool,
    /// The median time to the first token in each round, seconds.
    pub(super) first_tokens: Vec<f64>,
}

/// Sends requests of every shape until two rounds in a row take the same time.
pub(super) fn warm_up(
    options: &Options,
    rows: &[Arc<Row>],
    gate: Option<usize>,
    client: &mut Client,
    surroundings: &mut Surroundings<'_>,
) -> Result<WarmUp, ServingError> {
    let wanted = options.count("warmup-requests").unwrap_or(1) as usize;
    let mut found = WarmUp {
        requests: 0,
        rounds: 0,
        steady: wanted == 0,
        first_tokens: Vec::new(),
    };
    if wanted == 0 {
        return Ok(found);
    }
    let shapes = shapes(rows, wanted.max(gate.unwrap_or(1).min(16)));
    surroundings.say(&format!(
        "Warming up with {} shapes until the server is steady...",
        shapes.len()
    ));
    while found.rounds < MOST_ROUNDS && !found.steady {
        let outcome = round(&shapes, gate, client);
        if outcome.interrupted {
            return Err(ServingError::Said(130));
        }
        found.rounds += 1;
        found.requests += outcome.records.len();
        let times = times(&outcome);
        if times.is_empty() {
            let failure = outcome
                .records
                .first()
                .and_then(|record| record.failure.as_ref());
            return Err(ServingError::WarmUp(
                failure.map(ToString::to_string).unwrap_or_default(),
            ));
        }
        found.first_tokens.push(median(&times));
        found.steady = matches!(
            found.first_tokens.as_slice(),
            [.., before, last] if (last - before).abs() <= ALIKE * before.max(1e-3)
        );
    }
    surroundings.say(&format!(
        "Warm-up: {} requests in {} rounds, {}.",
        found.requests,
        found.rounds,
        if found.steady {
            "steady"
        } else {
            "not steady yet"
        },
    ));
    Ok(found)
}

/// Rows that cover the lengths of the load: the shortest, the longest, and those between.
fn shapes(rows: &[Arc<Row>], wanted: usize) -> Vec<Arc<Row>> {
    let mut order: Vec<&Arc<Row>> = rows.iter().collect();
    order.sort_by_key(|row| row.asked.prompt_tokens);
    let count = wanted.max(3).min(order.len());
    let place = |shape: usize| shape * (order.len() - 1) / (count - 1).max(1);
    (0..count)
        .map(|shape| {
            let mut row = Row::clone(order[place(shape)]);
            row.asked.output_tokens = row.asked.output_tokens.min(LONGEST_OUTPUT);
            Arc::new(row)
        })
        .collect()
}

fn round(shapes: &[Arc<Row>], gate: Option<usize>, client: &mut Client) -> LoadOutcome {
    let load = Load {
        rows: shapes,
        adapters: &[],
        pace: Box::new(Burst),
        gate,
        stop: StopRules::default(),
        again: false,
        skip: &|_| false,
    };
    load::run(client, load, &mut Silence)
}

/// Seconds to the first token, or to the end where there are none, sorted.
fn times(outcome: &LoadOutcome) -> Vec<f64> {
    let good = outcome.records.iter().filter(|record| record.succeeded());
    let mut times: Vec<f64> = good
        .map(|record| {
            let first = record.first_token().unwrap_or(record.finished);
            first.seconds_since(record.sent)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    // A mean that is no number would never be alike to anything.
    if mean(&times).is_finite() {
        times
    } else {
        Vec::new()
    }
}
