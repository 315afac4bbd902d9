//! What is said about cells while a session runs.

use super::preflight::resolved;
use super::tell::Event;
use super::{Cell, Matrix};
use crate::compare::cold_sentence;
use crate::finding::{Finding, Kind};
use crate::metric::Metric;
use crate::run::{Origin, Run, SubjectFacts};
use crate::store::StoreError;

/// What a cold server is slower in.
const COLD_IN: &[&str] = &["request_throughput", "mean_ttft_ms", "mean_tpot_ms"];
/// A first run is held against at least two later ones, if there will be so many.
const HELD_AGAINST: u32 = 3;

impl Matrix<'_> {
    /// Tells what was noticed about a cell, and whether the first one like it turns out to have been
    /// cold.
    pub(super) fn notice(&mut self, cell: &Cell, noticed: &[Finding]) -> Result<(), StoreError> {
        for finding in noticed {
            self.tell_finding(finding);
        }
        let mut runs = self.like(cell)?;
        let enough = runs.len() >= self.plan.repeats.min(HELD_AGAINST) as usize;
        let Some((first, later)) = runs.split_first_mut().filter(|_| enough) else {
            return Ok(());
        };
        let before = first.findings.clone();
        for metric in COLD_IN.iter().filter_map(|name| Metric::named(name)) {
            let runs: Vec<&Run> = [&*first].into_iter().chain(&*later).collect();
            let sentence = cold_sentence(&runs, metric);
            let part = format!("was cold: {} ", metric.name);
            first
                .findings
                .retain(|one| one.kind != Kind::ColdRun || !one.text.contains(&part));
            let cold = sentence.map(|text| Finding::new(Kind::ColdRun, text));
            let known = before.iter().any(|one| one.text.contains(&part));
            if let Some(cold) = cold.as_ref().filter(|_| !known) {
                self.tell_finding(cold);
            }
            first.findings.extend(cold);
        }
        if first.findings != before {
            self.store.amend(first)?;
        }
        Ok(())
    }

    /// The finished runs of this session with the subject and load of a cell, in order.
    fn like(&self, cell: &Cell) -> Result<Vec<Run>, StoreError> {
        let subject = &self.plan.subjects[cell.subject].name;
        let load = &self.plan.loads[cell.load].name;
        let runs = self.store.runs()?.into_iter().filter_map(|run| {
            let place = match &run.origin {
                Origin::Measured { session, cell, .. } if *session == self.session.name => *cell,
                _ => return None,
            };
            let like = run.subject.name == *subject && run.load.name == *load && run.finished();
            like.then_some((place, run))
        });
        let mut runs: Vec<(usize, Run)> = runs.collect();
        runs.sort_by_key(|(place, _)| *place);
        Ok(runs.into_iter().map(|(_, run)| run).collect())
    }

    /// Tells in what a subject differs from those met before, once it has said how it works.
    pub(super) fn meet(&mut self, subject: usize, facts: &SubjectFacts) {
        if facts.info.is_none() || self.met.contains_key(&subject) {
            return;
        }
        self.met.insert(subject, facts.clone());
        let pairs: Vec<usize> = match subject {
            0 => self
                .met
                .keys()
                .copied()
                .filter(|other| *other != 0)
                .collect(),
            other => vec![other],
        };
        for other in pairs {
            let Some((first, second)) = self.met.get(&0).zip(self.met.get(&other)) else {
                continue;
            };
            if let Some(finding) = resolved(first, second, self.plan) {
                self.tell_finding(&finding);
            }
        }
    }

    fn tell_finding(&mut self, finding: &Finding) {
        let text = finding.to_string();
        self.teller.tell(Event::Noticed { finding: &text });
    }
}
