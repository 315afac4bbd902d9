//! Two arms against each other, load by load.

mod circumstances;
mod rounds;

pub use rounds::Unpaired;

use crate::diff::{self, Difference};
use crate::finding::{Finding, Kind};
use crate::metric::{Metric, written};
use crate::requests::{behind, times};
use crate::run::{Evidence, Run};
use crate::statistics::{RunSample, cold_start};
use crate::verdict::{Answer, Demands, RoundSample};
use rounds::Pair;

/// How to compare.
#[derive(Debug, Clone, Default)]
pub struct Manner {
    /// How sure to be.
    pub demands: Demands,
    /// Whether cold first runs count.
    pub keep_cold: bool,
    /// What the arms are meant to differ in.
    pub variable: Option<String>,
}

/// One load on both arms.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The load.
    pub load: String,
    /// What was found for each metric that both arms have.
    pub answers: Vec<MetricAnswer>,
    /// What differs between the arms.
    pub differences: Vec<Difference>,
    /// What a reader must know.
    pub findings: Vec<Finding>,
}

/// What was found for one metric.
#[derive(Debug, Clone)]
pub struct MetricAnswer {
    /// The metric.
    pub metric: &'static Metric,
    /// The answer.
    pub answer: Answer,
    /// The runs it rests on, first arm and second.
    pub runs: (Vec<String>, Vec<String>),
    /// Runs that were left out because one of them was cold.
    pub left_out: Vec<String>,
    /// Why the runs are not paired by round; nothing when they are.
    pub unpaired: Option<Unpaired>,
}

/// Compares two arms on every load that both have finished runs of. Runs are in the order in which
/// they were made.
pub fn compare(
    first: &[Evidence],
    second: &[Evidence],
    metrics: &[&'static Metric],
    manner: &Manner,
) -> Vec<Comparison> {
    let mut loads: Vec<&str> = Vec::new();
    for evidence in first {
        let load = evidence.run.load.name.as_str();
        let shared = second.iter().any(|other| other.run.load.name == load);
        if shared && !loads.contains(&load) {
            loads.push(load);
        }
    }
    let of_load = |arm: &'_ [Evidence], load: &str| -> Vec<usize> {
        let chosen = arm.iter().enumerate();
        let chosen = chosen.filter(|(_, one)| one.run.load.name == load && one.run.finished());
        chosen.map(|(place, _)| place).collect()
    };
    let mut comparisons = Vec::new();
    for load in loads {
        let pick = |arm: &'_ [Evidence]| -> Vec<usize> { of_load(arm, load) };
        let one: Vec<&Evidence> = pick(first).into_iter().map(|place| &first[place]).collect();
        let two: Vec<&Evidence> = pick(second)
            .into_iter()
            .map(|place| &second[place])
            .collect();
        if !one.is_empty() && !two.is_empty() {
            comparisons.push(on_one_load(load, &one, &two, metrics, manner));
        }
    }
    comparisons
}

fn on_one_load(
    load: &str,
    first: &[&Evidence],
    second: &[&Evidence],
    metrics: &[&'static Metric],
    manner: &Manner,
) -> Comparison {
    let mut findings = circumstances::findings(first, second, manner.variable.as_deref());
    let pairs = rounds::pairs(first, second);
    if let Ok(pairs) = &pairs {
        let (one, two) = (&first[0].run.subject.name, &second[0].run.subject.name);
        findings.extend(rounds::alone(first, pairs, two));
        findings.extend(rounds::alone(second, pairs, one));
    }
    let mut answers = Vec::new();
    for metric in metrics {
        let (arms, told) = Arms::counted((first, second), &pairs, metric, manner.keep_cold);
        findings.extend(told);
        answers.extend(arms.answer(metric, manner.demands));
    }
    findings.dedup();
    Comparison {
        load: load.to_owned(),
        answers,
        differences: diff::differences(&first[0].run.subject, &second[0].run.subject),
        findings,
    }
}

/// The runs of two arms that count for a metric.
struct Arms<'a> {
    first: Vec<&'a Evidence>,
    second: Vec<&'a Evidence>,
    /// For each place whether the second arm's run came first; or why there are no rounds.
    rounds: Result<Vec<bool>, Unpaired>,
    left_out: Vec<String>,
}

impl<'a> Arms<'a> {
    /// Takes the runs that have the figure, less the first of both arms where one of them was cold:
    /// leaving out one arm's alone would favour it.
    fn counted(
        (first, second): (&[&'a Evidence], &[&'a Evidence]),
        pairs: &Result<Vec<Pair<'a>>, Unpaired>,
        metric: &Metric,
        keep_cold: bool,
    ) -> (Self, Vec<Finding>) {
        let has = |one: &Evidence| one.run.figures.get(metric.name).is_some();
        let of = |arm: &[&'a Evidence]| arm.iter().filter(|one| has(one)).copied().collect();
        let mut arms = match pairs {
            Ok(pairs) => {
                let whole = pairs
                    .iter()
                    .filter(|pair| has(pair.first) && has(pair.second));
                let (runs, reversed): (Vec<_>, Vec<bool>) = whole
                    .map(|pair| ((pair.first, pair.second), pair.reversed))
                    .unzip();
                let (first, second) = runs.into_iter().unzip();
                Self {
                    first,
                    second,
                    rounds: Ok(reversed),
                    left_out: Vec::new(),
                }
            }
            Err(why) => Self {
                first: of(first),
                second: of(second),
                rounds: Err(*why),
                left_out: Vec::new(),
            },
        };
        let told = arms.without_cold(metric, keep_cold);
        if arms.rounds.as_ref().is_ok_and(|rounds| rounds.len() < 2) {
            arms.rounds = Err(Unpaired::TooFew);
        }
        (arms, told)
    }

    fn without_cold(&mut self, metric: &Metric, keep_cold: bool) -> Vec<Finding> {
        let sentence = |arm: &[&Evidence]| {
            let runs: Vec<&Run> = arm.iter().map(|one| &one.run).collect();
            cold_sentence(&runs, metric)
        };
        let cold = [sentence(&self.first), sentence(&self.second)];
        if cold.iter().all(Option::is_none) {
            return Vec::new();
        }
        let enough = self.first.len() > 1 && self.second.len() > 1;
        let fate = match (keep_cold, enough) {
            (true, _) => "it counts all the same",
            (false, false) => "it counts all the same, as an arm has no other run",
            (false, true) => {
                self.left_out = [self.first.remove(0), self.second.remove(0)]
                    .map(|one| one.run.id.clone())
                    .to_vec();
                if let Ok(rounds) = &mut self.rounds {
                    rounds.remove(0);
                }
                "the first run of both arms is left out"
            }
        };
        let told = cold.into_iter().flatten();
        told.map(|sentence| Finding::new(Kind::ColdRun, format!("{sentence}; {fate}")))
            .collect()
    }

    fn answer(self, metric: &'static Metric, demands: Demands) -> Option<MetricAnswer> {
        let answer = if let Ok(reversed) = &self.rounds {
            let value = |one: &Evidence| one.run.figures.get(metric.name);
            let runs = self.first.iter().zip(&self.second).zip(reversed);
            let rounds = runs.filter_map(|((first, second), reversed)| {
                Some(RoundSample {
                    first: value(first)?,
                    second: value(second)?,
                    reversed: *reversed,
                })
            });
            Answer::paired(&rounds.collect::<Vec<_>>(), metric.better, demands)
        } else {
            let of_arms = (
                requests(&self.first, metric),
                requests(&self.second, metric),
            );
            let first = samples(&self.first, &of_arms.0, metric);
            let second = samples(&self.second, &of_arms.1, metric);
            Answer::unpaired(&first, &second, metric.better, demands)
        };
        let ids = |arm: &[&Evidence]| arm.iter().map(|one| one.run.id.clone()).collect();
        Some(MetricAnswer {
            metric,
            answer: answer?,
            runs: (ids(&self.first), ids(&self.second)),
            left_out: self.left_out,
            unpaired: self.rounds.err(),
        })
    }
}

/// The times of each run's requests behind a metric, where they are known.
fn requests(arm: &[&Evidence], metric: &Metric) -> Vec<Option<Vec<f64>>> {
    let values = arm.iter().map(|evidence| {
        let (timed, _) = behind(metric.name)?;
        Some(times(&evidence.records, timed)).filter(|values| !values.is_empty())
    });
    values.collect()
}

fn samples<'a>(
    arm: &[&Evidence],
    values: &'a [Option<Vec<f64>>],
    metric: &Metric,
) -> Vec<RunSample<'a>> {
    let estimator = behind(metric.name).map(|(_, estimator)| estimator);
    let runs = arm.iter().zip(values).filter_map(|(evidence, values)| {
        Some(RunSample {
            value: evidence.run.figures.get(metric.name)?,
            requests: estimator.zip(values.as_deref()),
        })
    });
    runs.collect()
}

/// Says so when the first of an arm's runs was cold. Runs are in the order they were made and all of
/// them have the figure.
pub(crate) fn cold_sentence(runs: &[&Run], metric: &Metric) -> Option<String> {
    let values = runs.iter().map(|run| run.figures.get(metric.name));
    let values: Vec<f64> = values.collect::<Option<_>>()?;
    let cold = cold_start(&values, metric.better)?;
    let later = values[1..].iter().map(|value| written(metric.name, *value));
    Some(format!(
        "run {} ({}) of {} was cold: {} {} against {} later",
        runs[0].short_id(),
        runs[0].place(),
        runs[0].subject.name,
        metric.name,
        written(metric.name, cold.first),
        later.collect::<Vec<_>>().join(", "),
    ))
}

#[cfg(test)]
mod tests;
