//! The highest rate that meets the service objectives.

use super::error::ServingError;
use super::options::Options;
use super::prepare::Prepared;
use super::strict::StrictRun;
use super::strict_result::StrictResult;
use super::surroundings::Surroundings;
use crate::dataset::Row;
use crate::result::{ResultLine, Style, append};
use serde_json::{Value, json};
use std::sync::Arc;

/// Rates are looked for between this and no bound.
const LEAST_RATE: f64 = 0.05;
/// The search ends when the two bounds are this close.
const CLOSE: f64 = 1.08;
/// The search gives up after this many runs.
const MOST_RUNS: usize = 16;
/// A run lasts about this long, within the dataset's size.
const SECONDS: f64 = 20.0;

/// What one rate came to.
struct Trial {
    rate: f64,
    attainment: f64,
    meets: bool,
    result: StrictResult,
}

/// Searches, prints each step, and returns what the process returns.
pub(super) fn search(
    options: &Options,
    prepared: &Prepared,
    rows: &[Arc<Row>],
    surroundings: &mut Surroundings<'_>,
) -> Result<u8, ServingError> {
    let wanted = options.own.float("attainment").unwrap_or(0.99);
    let template = StrictRun::new(options, prepared, rows.to_vec())?;
    let first = options
        .given
        .float("request-rate")
        .filter(|rate| rate.is_finite())
        .unwrap_or(1.0);
    let mut bounds = Bounds::starting_at(first);
    let mut best: Option<Trial> = None;
    let mut trials = Vec::new();
    for _ in 0..MOST_RUNS {
        let Some(rate) = bounds.next() else { break };
        let count = ((rate * SECONDS) as usize).clamp(20.min(rows.len()), rows.len());
        let result = template
            .at_rate(rate, &rows[..count])
            .execute(surroundings)?;
        if result.interrupted {
            return Ok(130);
        }
        let trial = Trial::of(rate, result, wanted);
        surroundings.say(&trial.words());
        trials.push(trial.summary());
        bounds.learn(rate, trial.meets);
        if trial.meets && best.as_ref().is_none_or(|best| best.rate < rate) {
            best = Some(trial);
        }
    }
    let Some(best) = best else {
        surroundings.say("No rate met the objectives.");
        write(options, None, &trials)?;
        return Ok(1);
    };
    surroundings.show(&best.result.table());
    surroundings.say(&format!(
        "Highest rate that meets {} for {:.1} % of requests: {:.2} req/s",
        options
            .objectives
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        wanted * 100.0,
        best.rate,
    ));
    write(options, Some(&best), &trials)?;
    Ok(0)
}

fn write(options: &Options, best: Option<&Trial>, trials: &[Value]) -> Result<(), ServingError> {
    let mut line = match best {
        Some(best) => best.result.line(options),
        None => ResultLine::default(),
    };
    line.add("max_rate", best.map(|best| best.rate));
    line.add("max_rate_trials", trials.to_vec());
    let path = super::compat::output_file(options);
    append(&path, &line.text(Style::Valid)).map_err(|source| ServingError::Output { path, source })
}

impl Trial {
    fn of(rate: f64, result: StrictResult, wanted: f64) -> Self {
        let attainment = result
            .figures
            .goodput
            .as_ref()
            .map_or(0.0, |goodput| goodput.attainment);
        Self {
            rate,
            attainment,
            meets: attainment >= wanted,
            result,
        }
    }

    fn words(&self) -> String {
        let figures = &self.result.figures;
        format!(
            "{:>8.2} req/s: {:5.1} % met the objectives (P99 TTFT {:.1} ms, P99 TPOT {:.2} ms, {} failed) {}",
            self.rate,
            self.attainment * 100.0,
            figures.scheduled_ttft.p99,
            figures.tpot.p99,
            figures.failed(),
            if self.meets { "yes" } else { "no" },
        )
    }

    fn summary(&self) -> Value {
        json!({
            "rate": self.rate,
            "attainment": self.attainment,
            "meets": self.meets,
            "client_limited": self.result.health.is_limited(),
        })
    }
}

/// Doubling until a rate fails, then halving the distance on a logarithmic scale.
struct Bounds {
    good: Option<f64>,
    bad: Option<f64>,
    first: f64,
}

impl Bounds {
    fn starting_at(first: f64) -> Self {
        Self {
            good: None,
            bad: None,
            first,
        }
    }

    fn next(&self) -> Option<f64> {
        match (self.good, self.bad) {
            (None, None) => Some(self.first),
            (Some(good), None) => Some(good * 2.0),
            (None, Some(bad)) => Some(bad / 2.0).filter(|rate| *rate >= LEAST_RATE),
            (Some(good), Some(bad)) => (bad / good > CLOSE).then(|| (good * bad).sqrt()),
        }
    }

    fn learn(&mut self, rate: f64, meets: bool) {
        if meets {
            self.good = Some(self.good.map_or(rate, |good| good.max(rate)));
        } else {
            self.bad = Some(self.bad.map_or(rate, |bad| bad.min(rate)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_closes_in_on_the_limit_from_either_side() {
        for (first, limit) in [(1.0, 13.7), (100.0, 13.7), (13.0, 13.7), (1.0, 0.3)] {
            let mut bounds = Bounds::starting_at(first);
            let mut runs = 0;
            while let Some(rate) = bounds.next() {
                bounds.learn(rate, rate <= limit);
                runs += 1;
            }
            let good = bounds.good.unwrap();
            assert!(
                good <= limit && good * CLOSE >= limit,
                "{first}: {good} for {limit}"
            );
            assert!(runs <= MOST_RUNS, "{first}: {runs} runs");
        }
    }

    #[test]
    fn a_server_that_never_meets_them_ends_the_search() {
        let mut bounds = Bounds::starting_at(1.0);
        while let Some(rate) = bounds.next() {
            bounds.learn(rate, false);
        }
        assert_eq!(bounds.good, None);
    }
}
