//! The highest rate that meets the service objectives.

mod search;

use self::search::{CONFIDENCE, Interval, MOST_REPEATS, Search, needed, run_size};
use super::error::ServingError;
use super::options::Options;
use super::prepare::Prepared;
use super::strict::StrictRun;
use super::strict_result::StrictResult;
use super::surroundings::Surroundings;
use crate::dataset::Row;
use crate::measure::timing::Timing;
use crate::record::RequestRecord;
use crate::result::{ResultLine, Style, append};
use serde_json::{Value, json};
use std::sync::Arc;

/// A run lasts about this long, within the dataset's size.
const SECONDS: f64 = 20.0;
/// A run that is over sooner says nothing of its rate: no queue has had time to grow.
const LEAST_SECONDS: f64 = 2.0;

/// One run at a rate.
struct Trial {
    rate: f64,
    /// Whether each request met the objectives, in the order of arrival.
    met: Vec<bool>,
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
    check_size(options, rows.len(), wanted)?;
    let template = StrictRun::new(options, prepared, rows.to_vec())?;
    let mut found = Found {
        wanted,
        search: Search::starting_at(first_rate(options), wanted),
        trials: Vec::new(),
        interrupted: false,
    };
    while let Some(rate) = found.search.next() {
        if !options.own.given("duration") && is_over_at_once(rate, rows.len()) {
            surroundings.warn(&format!(
                "warning: {} rows last less than {LEAST_SECONDS} s at {rate:.2} req/s, which shows \
                 nothing: give --duration or more --num-prompts to look beyond",
                rows.len()
            ));
            break;
        }
        let count = run_size(rate, SECONDS, wanted).min(rows.len());
        let result = template
            .at_rate(rate, &rows[..count])
            .execute(surroundings)?;
        if result.interrupted {
            found.interrupted = true;
            break;
        }
        let trial = Trial::of(rate, result, options, prepared);
        surroundings.say(&trial.words());
        let limited = trial.result.health.is_limited();
        // What a late client missed is not the server's; what it met, a better one meets too.
        if !limited || trial.share() >= wanted {
            found.search.learn(rate, &trial.met);
        }
        found.trials.push(trial);
        if limited {
            surroundings.warn(&format!(
                "warning: the client was the limit at {rate:.2} req/s, the search ends there"
            ));
            break;
        }
    }
    found.conclude(options, prepared, surroundings)
}

/// Refuses a share that the rows cannot tell from another, before a search that would end so.
fn check_size(options: &Options, rows: usize, share: f64) -> Result<(), ServingError> {
    let most = rows * MOST_REPEATS;
    if options.own.given("duration") || most >= needed(share) {
        return Ok(());
    }
    Err(ServingError::Refused(format!(
        "--find-max-rate: {rows} requests, {MOST_REPEATS} times at a rate, cannot show that {:.1} % \
         meet the objectives; it takes {} without a miss: give --duration or more --num-prompts, or \
         a lower --attainment",
        share * 100.0,
        needed(share),
    )))
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

/// What a search came to.
struct Found {
    wanted: f64,
    search: Search,
    trials: Vec<Trial>,
    interrupted: bool,
}

impl Found {
    /// Prints and writes it; what the process returns.
    fn conclude(
        &self,
        options: &Options,
        prepared: &Prepared,
        surroundings: &mut Surroundings<'_>,
    ) -> Result<u8, ServingError> {
        let interval = self.search.found();
        let written = self.write(interval, options, prepared);
        if let Some(best) = self.best(interval) {
            let table = best.result.table();
            surroundings.show(&table);
            super::page::write_strict(options, prepared, (&best.result, &table), surroundings)?;
        }
        if !self.trials.is_empty() {
            surroundings.say(&self.words(interval, options));
        }
        written?;
        if self.interrupted {
            let trials = self.trials.len();
            surroundings.warn(&format!("interrupted after {trials} rates"));
            return Ok(130);
        }
        Ok(u8::from(interval.good.is_none()))
    }

    /// The newest run at the highest rate that is known to be good.
    fn best(&self, interval: Interval) -> Option<&Trial> {
        let good = interval.good?;
        let mut trials = self.trials.iter().rev();
        trials.find(|trial| (trial.rate / good - 1.0).abs() < 1e-9)
    }

    fn words(&self, interval: Interval, options: &Options) -> String {
        let objectives = options.objectives.as_ref().map(ToString::to_string);
        let objectives = objectives.unwrap_or_default();
        let share = self.wanted * 100.0;
        let what = format!("Highest rate that meets {objectives} for {share:.1} % of requests");
        let seconds = options.own.float("duration").unwrap_or(SECONDS);
        let (percent, needed) = (CONFIDENCE * 100.0, needed(self.wanted));
        match (interval.good, interval.bad) {
            (Some(good), Some(bad)) => format!(
                "{what}: between {good:.2} and {bad:.2} req/s ({percent:.0} % confidence, runs of \
                 {seconds} s)"
            ),
            (Some(good), None) => {
                format!("{what}: at least {good:.2} req/s; no higher rate was shown to fail")
            }
            (None, _) if !self.search.saw_good() => "No rate met the objectives.".to_owned(),
            (None, bad) => {
                let below = bad.map_or_else(String::new, |bad| format!(" below {bad:.2} req/s"));
                format!(
                    "{what}: not known{below}. Rates looked good, but had too few requests to show \
                     {share:.1} %, which takes {needed} or more at one rate: give a longer \
                     --duration or more --num-prompts, or a lower --attainment"
                )
            }
        }
    }

    fn write(
        &self,
        interval: Interval,
        options: &Options,
        prepared: &Prepared,
    ) -> Result<(), ServingError> {
        let mut line = match self.best(interval) {
            Some(best) => best.result.line(options, prepared),
            None => ResultLine::default(),
        };
        let trials: Vec<Value> = self.trials.iter().map(Trial::summary).collect();
        line.add("max_rate", interval.good);
        line.add("max_rate_interval", json!([interval.good, interval.bad]));
        line.add("max_rate_confidence", CONFIDENCE);
        line.add("max_rate_trials", trials);
        line.add("max_rate_interrupted", self.interrupted);
        let path = super::compat::output_file(options);
        append(&path, &line.text(Style::Valid))
            .map_err(|source| ServingError::Output { path, source })
    }
}

impl Trial {
    fn of(rate: f64, result: StrictResult, options: &Options, prepared: &Prepared) -> Self {
        let family = prepared.backend.family();
        let mut records: Vec<&RequestRecord> = result.records.iter().collect();
        records.sort_by_key(|record| record.scheduled);
        let met = records.iter().map(|record| {
            let timing = || Timing::of(record, family, &prepared.vocabulary);
            let bounds = options.objectives.as_ref();
            record.succeeded() && bounds.is_some_and(|bounds| bounds.met_by(&timing().observed()))
        });
        Self {
            rate,
            met: met.collect(),
            result,
        }
    }

    fn share(&self) -> f64 {
        let met = self.met.iter().filter(|met| **met).count();
        met as f64 / self.met.len().max(1) as f64
    }

    fn words(&self) -> String {
        let figures = &self.result.figures;
        format!(
            "{:>8.2} req/s: {:5.1} % of {} met the objectives (P99 TTFT {:.1} ms, P99 TPOT {:.2} ms, {} failed)",
            self.rate,
            self.share() * 100.0,
            self.met.len(),
            figures.scheduled_ttft.p99,
            figures.tpot.p99,
            figures.failed(),
        )
    }

    fn summary(&self) -> Value {
        json!({
            "rate": self.rate,
            "requests": self.met.len(),
            "attainment": self.share(),
            "client_limited": self.result.health.is_limited(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_that_the_rows_do_not_last_for_are_not_tried() {
        assert!(!is_over_at_once(10.0, 20));
        assert!(is_over_at_once(10.1, 20));
    }
}
