//! Reports: what a set of runs shows, drawn from the store only. Every number names its run.

mod accelerators;
mod anomalies;
mod charts;
mod html;
mod load;
mod markdown;
mod sections;

pub(crate) use html::html;
pub(crate) use markdown::markdown;

use std::collections::BTreeMap;

use crate::compare::{Comparison, Manner, compare};
use crate::finding::Finding;
use crate::history::History;
use crate::import;
use crate::machine::{ACCELERATORS, Moment, moments};
use crate::metric::Metric;
use crate::moment;
use crate::run::{Evidence, Run};
use crate::statistics::cold_start;
use crate::store::{Sample, Store, StoreError};

/// A history is worth a chart from this many runs on.
const HISTORY: usize = 5;

/// What a report is about.
#[derive(Debug)]
pub(crate) struct Report {
    /// Its title.
    pub(crate) title: String,
    /// When it was made, in UTC.
    pub(crate) made: String,
    /// The runs with their requests, oldest first.
    pub(crate) evidence: Vec<Evidence>,
    /// Subjects in the order in which they appear.
    pub(crate) subjects: Vec<String>,
    /// Loads in the order in which they appear.
    pub(crate) loads: Vec<String>,
    /// Pairs of arms and what they show.
    pub(crate) pairs: Vec<Pair>,
    /// What a reader must know, with the runs it is about.
    pub(crate) findings: Vec<(Finding, Vec<String>)>,
    /// The printed table of each run that has one.
    pub(crate) tables: BTreeMap<String, String>,
    /// How the GPUs were doing, moment by moment, in each run that watched them.
    pub(crate) courses: BTreeMap<String, Vec<Moment>>,
    /// Metrics over time, where there is enough of it.
    pub(crate) histories: Vec<(&'static Metric, History)>,
    /// Whether cold first runs count.
    keep_cold: bool,
}

/// A metric in the runs of a cell.
pub(crate) struct Values<'a> {
    /// Every value with its run, in order.
    pub(crate) all: Vec<(f64, &'a Run)>,
    /// Whether the first one does not count, as it or that of another arm was cold.
    pub(crate) cold: bool,
}

impl Values<'_> {
    /// The values that count.
    pub(crate) fn counted(&self) -> Vec<f64> {
        let counted = self.all.iter().skip(usize::from(self.cold));
        counted.map(|(value, _)| *value).collect()
    }
}

/// Two arms.
#[derive(Debug)]
pub(crate) struct Pair {
    /// The arm that others are held against.
    pub(crate) first: String,
    /// The other.
    pub(crate) second: String,
    /// What they show, load by load.
    pub(crate) comparisons: Vec<Comparison>,
}

impl Report {
    /// Gathers what there is to say about runs.
    pub(crate) fn of(
        store: &Store,
        (title, runs): (&str, Vec<Run>),
        metrics: &[&'static Metric],
        manner: &Manner,
    ) -> Result<Self, StoreError> {
        let (mut tables, mut courses) = (BTreeMap::new(), BTreeMap::new());
        for run in &runs {
            let course = store.text(&run.id, ACCELERATORS);
            courses.extend(course.map(|table| (run.id.clone(), moments(&table))));
            tables.extend(printed(store, run).map(|table| (run.id.clone(), table)));
        }
        let subjects = names(&runs, |run| &run.subject.name);
        let loads = names(&runs, |run| &run.load.name);
        let evidence = store.evidence(runs)?;
        let pairs = sections::pairs(&evidence, &subjects, &|first, second| {
            compare(first, second, metrics, manner)
        });
        let mut findings = sections::findings(&evidence, &pairs);
        findings.extend(anomalies::findings(&evidence));
        let histories = histories(&evidence, metrics);
        Ok(Self {
            title: title.to_owned(),
            made: moment::now(),
            evidence,
            subjects,
            loads,
            pairs,
            findings,
            tables,
            courses,
            histories,
            keep_cold: manner.keep_cold,
        })
    }

    /// A metric in the runs of one load on one subject.
    pub(crate) fn values(&self, (subject, load): (&str, &str), name: &str) -> Values<'_> {
        let of_cell = self.cell(subject, load);
        let with = of_cell
            .into_iter()
            .filter_map(|one| Some((one.run.figures.get(name)?, &one.run)));
        let all: Vec<(f64, &Run)> = with.collect();
        let cold = !self.keep_cold && all.len() > 1 && self.starts_cold((subject, load), name);
        Values { all, cold }
    }

    /// Whether the first run of a cell was cold, or that of a subject it is held against: a comparison
    /// leaves out both.
    fn starts_cold(&self, (subject, load): (&str, &str), name: &str) -> bool {
        let Some(metric) = Metric::named(name) else {
            return false;
        };
        let own = self.cell(subject, load);
        self.subjects.iter().any(|other| {
            let cell = self.cell(other, load);
            let together = own.iter().zip(&cell).any(|(one, two)| {
                other == subject || sections::belong_together(&one.run, &two.run)
            });
            let values = cell.iter().filter_map(|one| one.run.figures.get(name));
            together && cold_start(&values.collect::<Vec<f64>>(), metric.better).is_some()
        })
    }

    /// The runs of one load on one subject that have figures.
    pub(crate) fn cell(&self, subject: &str, load: &str) -> Vec<&Evidence> {
        let of_cell = self.evidence.iter().filter(|evidence| {
            evidence.run.subject.name == subject && evidence.run.load.name == load
        });
        of_cell.filter(|evidence| evidence.run.finished()).collect()
    }

    /// The runs of one subject.
    pub(crate) fn subject(&self, subject: &str) -> Vec<&Run> {
        let runs = self.evidence.iter().map(|evidence| &evidence.run);
        runs.filter(|run| run.subject.name == subject).collect()
    }
}

fn names(runs: &[Run], name: impl Fn(&Run) -> &String) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for run in runs {
        if !names.contains(name(run)) {
            names.push(name(run).clone());
        }
    }
    names
}

/// The table of a run as it was printed.
fn printed(store: &Store, run: &Run) -> Option<String> {
    let kept = store.text(&run.id, "table.txt");
    kept.or_else(|| {
        let out = store.text(&run.id, "client.out")?;
        import::runs("client", &out).pop().map(|found| found.text)
    })
}

fn histories(
    evidence: &[Evidence],
    metrics: &[&'static Metric],
) -> Vec<(&'static Metric, History)> {
    let mut found: Vec<(&'static Metric, History)> = Vec::new();
    for metric in metrics {
        for Evidence { run, .. } in evidence.iter().filter(|evidence| evidence.run.finished()) {
            let Some(value) = run.figures.get(metric.name) else {
                continue;
            };
            let sample = Sample {
                run: run.id.clone(),
                moment: run.place(),
                subject: run.subject.name.clone(),
                load: run.load.name.clone(),
                value,
            };
            let same = found.iter_mut().find(|(other, history)| {
                other.name == metric.name
                    && history.subject == sample.subject
                    && history.load == sample.load
            });
            match same {
                Some((_, history)) => history.samples.push(sample),
                None => found.push((
                    metric,
                    History {
                        subject: sample.subject.clone(),
                        load: sample.load.clone(),
                        samples: vec![sample],
                    },
                )),
            }
        }
    }
    found.retain(|(_, history)| history.samples.len() >= HISTORY);
    found
}

#[cfg(test)]
mod tests;
