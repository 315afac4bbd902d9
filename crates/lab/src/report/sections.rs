//! Which arms belong together, and what was noticed about whom.

use super::Pair;
use crate::compare::Comparison;
use crate::finding::Finding;
use crate::run::{Evidence, Origin, Run};

/// Compares two arms.
type Compare<'a> = &'a dyn Fn(&[Evidence], &[Evidence]) -> Vec<Comparison>;

/// The first subject of each source against every other one of it: subjects of one session belong
/// together, subjects of one text do when they serve the same model.
pub(super) fn pairs(evidence: &[Evidence], subjects: &[String], compare: Compare<'_>) -> Vec<Pair> {
    let arm = |name: &str| -> Vec<Evidence> {
        let of_arm = evidence.iter().filter(|one| one.run.subject.name == name);
        of_arm.filter(|one| one.run.finished()).cloned().collect()
    };
    let mut pairs: Vec<Pair> = Vec::new();
    for (place, second) in subjects.iter().enumerate() {
        let two = arm(second);
        let Some(example) = two.first() else { continue };
        let first = subjects[..place].iter().find(|first| {
            let together = evidence
                .iter()
                .filter(|one| one.run.subject.name == **first);
            together
                .clone()
                .any(|one| belong_together(&one.run, &example.run))
        });
        let Some(first) = first else { continue };
        let comparisons = compare(&arm(first), &two);
        if !comparisons.is_empty() {
            pairs.push(Pair {
                first: first.clone(),
                second: second.clone(),
                comparisons,
            });
        }
    }
    pairs
}

/// Whether two runs are of arms that are held against each other.
pub(super) fn belong_together(one: &Run, two: &Run) -> bool {
    match (&one.origin, &two.origin) {
        (
            Origin::Measured { session: first, .. },
            Origin::Measured {
                session: second, ..
            },
        ) => first == second,
        (Origin::Imported { file: first, .. }, Origin::Imported { file: second, .. }) => {
            first == second && one.subject.model == two.subject.model
        }
        _ => false,
    }
}

/// Everything that was noticed, each thing once, with the runs or arms it is about.
pub(super) fn findings(evidence: &[Evidence], pairs: &[Pair]) -> Vec<(Finding, Vec<String>)> {
    let mut found: Vec<(Finding, Vec<String>)> = Vec::new();
    // a comparison says of a cold run what the run says of itself, and what became of it
    let said = |other: &Finding, one: &Finding| {
        other.kind == one.kind && other.text.starts_with(&one.text)
    };
    let mut add = |finding: &Finding, about: String| match found
        .iter_mut()
        .find(|(other, _)| said(other, finding))
    {
        Some((_, places)) => {
            if !places.contains(&about) {
                places.push(about);
            }
        }
        None => found.push((finding.clone(), vec![about])),
    };
    for pair in pairs {
        for comparison in &pair.comparisons {
            for finding in &comparison.findings {
                add(finding, comparison.load.clone());
            }
        }
    }
    for Evidence { run, .. } in evidence {
        for finding in &run.findings {
            add(finding, run.short_id().to_owned());
        }
    }
    found.sort_by_key(|(finding, _)| finding.kind);
    found
}
