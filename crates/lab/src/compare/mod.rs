//! Two arms against each other, load by load.

mod circumstances;

use crate::diff::{self, Difference};
use crate::finding::{Finding, Kind};
use crate::metric::{Metric, written};
use crate::requests::{behind, times};
use crate::run::{Evidence, Run};
use crate::statistics::{RunSample, cold_start};
use crate::verdict::{Answer, Demands};

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
    /// Cold runs that were left out.
    pub left_out: Vec<String>,
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
    let mut answers = Vec::new();
    for metric in metrics {
        let (one, cold_one) = warm(first, metric, manner.keep_cold);
        let (two, cold_two) = warm(second, metric, manner.keep_cold);
        let left_out = [cold_one, cold_two].into_iter().flatten();
        let (left_out, told): (Vec<String>, Vec<Finding>) = left_out.unzip();
        findings.extend(told);
        let better = metric.better;
        let values = |arm: &[&Evidence]| -> Vec<Option<Vec<f64>>> {
            let values = arm.iter().map(|evidence| {
                let (timed, _) = behind(metric.name)?;
                Some(times(&evidence.records, timed)).filter(|values| !values.is_empty())
            });
            values.collect()
        };
        let (values_one, values_two) = (values(&one), values(&two));
        let samples_one = samples(&one, &values_one, metric);
        let samples_two = samples(&two, &values_two, metric);
        let answer = Answer::of(&samples_one, &samples_two, better, manner.demands);
        let ids = |arm: &[&Evidence]| arm.iter().map(|one| one.run.id.clone()).collect();
        if let Some(answer) = answer {
            answers.push(MetricAnswer {
                metric,
                answer,
                runs: (ids(&one), ids(&two)),
                left_out,
            });
        }
    }
    findings.dedup();
    Comparison {
        load: load.to_owned(),
        answers,
        differences: diff::differences(&first[0].run.subject, &second[0].run.subject),
        findings,
    }
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

type Cold = (String, Finding);

/// The runs that count, and the first one when it was cold.
fn warm<'a>(
    arm: &[&'a Evidence],
    metric: &Metric,
    keep_cold: bool,
) -> (Vec<&'a Evidence>, Option<Cold>) {
    let with: Vec<&Evidence> = arm
        .iter()
        .filter(|evidence| evidence.run.figures.get(metric.name).is_some())
        .copied()
        .collect();
    let runs: Vec<&Run> = with.iter().map(|evidence| &evidence.run).collect();
    let Some(sentence) = cold_sentence(&runs, metric) else {
        return (with, None);
    };
    let fate = if keep_cold {
        "it counts all the same"
    } else {
        "it is left out"
    };
    let text = format!("{sentence}; {fate}");
    let told = (with[0].run.id.clone(), Finding::new(Kind::ColdRun, text));
    let counted = if keep_cold { with } else { with[1..].to_vec() };
    (counted, Some(told))
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
