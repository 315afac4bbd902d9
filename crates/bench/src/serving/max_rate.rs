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
/// A run that is over sooner says nothing of its rate: no queue has had time to grow.
const LEAST_SECONDS: f64 = 2.0;

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
    let mut bounds = Bounds::starting_at(first_rate(options));
    let mut found = Found::default();
    for _ in 0..MOST_RUNS {
        let Some(rate) = bounds.next() else { break };
        if !options.own.given("duration") && is_over_at_once(rate, rows.len()) {
            surroundings.warn(&format!(
                "warning: {} rows last less than {LEAST_SECONDS} s at {rate:.2} req/s, which shows \
                 nothing: give --duration or more --num-prompts to look beyond",
                rows.len()
            ));
            break;
        }
        let result = template
            .at_rate(rate, trial_rows(rate, rows))
            .execute(surroundings)?;
        if result.interrupted {
            found.interrupted = true;
            break;
        }
        let trial = Trial::of(rate, result, wanted);
        surroundings.say(&trial.words());
        bounds.learn(rate, trial.meets);
        found.add(trial);
    }
    found.conclude(options, prepared, wanted, surroundings)
}

/// Where the search begins.
fn first_rate(options: &Options) -> f64 {
    let given = options.given.float("request-rate");
    given.filter(|rate| rate.is_finite()).unwrap_or(1.0)
}

/// Whether a run of so many rows is too short to tell anything of its rate.
fn is_over_at_once(rate: f64, rows: usize) -> bool {
    (rows as f64) < rate * LEAST_SECONDS
}

/// As many rows as fill the time of a run, where there are so many.
fn trial_rows(rate: f64, rows: &[Arc<Row>]) -> &[Arc<Row>] {
    let count = ((rate * SECONDS) as usize).clamp(20.min(rows.len()), rows.len());
    &rows[..count]
}

/// What a search came to.
#[derive(Default)]
struct Found {
    best: Option<Trial>,
    trials: Vec<Value>,
    interrupted: bool,
}

impl Found {
    fn add(&mut self, trial: Trial) {
        self.trials.push(trial.summary());
        let is_higher = self.best.as_ref().is_none_or(|best| best.rate < trial.rate);
        if trial.meets && is_higher {
            self.best = Some(trial);
        }
    }

    /// Prints and writes it; what the process returns.
    fn conclude(
        &self,
        options: &Options,
        prepared: &Prepared,
        wanted: f64,
        surroundings: &mut Surroundings<'_>,
    ) -> Result<u8, ServingError> {
        let written = self.write(options, prepared);
        match &self.best {
            Some(best) => {
                let table = best.result.table();
                surroundings.show(&table);
                let objectives = options.objectives.as_ref().map(ToString::to_string);
                surroundings.say(&format!(
                    "Highest rate that meets {} for {:.1} % of requests: {:.2} req/s",
                    objectives.unwrap_or_default(),
                    wanted * 100.0,
                    best.rate,
                ));
                super::page::write_strict(options, prepared, (&best.result, &table), surroundings)?;
            }
            None if self.trials.is_empty() => {}
            None => surroundings.say("No rate met the objectives."),
        }
        written?;
        if self.interrupted {
            let trials = self.trials.len();
            surroundings.warn(&format!("interrupted after {trials} rates"));
            return Ok(130);
        }
        Ok(u8::from(self.best.is_none()))
    }

    fn write(&self, options: &Options, prepared: &Prepared) -> Result<(), ServingError> {
        let mut line = match &self.best {
            Some(best) => best.result.line(options, prepared),
            None => ResultLine::default(),
        };
        line.add("max_rate", self.best.as_ref().map(|best| best.rate));
        line.add("max_rate_trials", self.trials.clone());
        line.add("max_rate_interrupted", self.interrupted);
        let path = super::compat::output_file(options);
        append(&path, &line.text(Style::Valid))
            .map_err(|source| ServingError::Output { path, source })
    }
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
    fn rates_that_the_rows_do_not_last_for_are_not_tried() {
        assert!(!is_over_at_once(10.0, 20));
        assert!(is_over_at_once(10.1, 20));
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
