//! What stands between a difference and its cause.

use crate::diff;
use crate::finding::{Finding, Kind};
use crate::run::{Evidence, Origin, Run};

/// Work may differ by this share between arms before it is worth a word.
const WORK_APART: f64 = 0.005;

/// Everything about two arms that a reader of their comparison must know.
pub(super) fn findings(
    first: &[&Evidence],
    second: &[&Evidence],
    variable: Option<&str>,
) -> Vec<Finding> {
    let (one, two) = (&first[0].run, &second[0].run);
    let mut findings = diff::confounders(one, two, variable);
    findings.extend(mixed(first));
    findings.extend(mixed(second));
    findings.extend(work(one, two));
    findings.extend(order(first, second));
    for arm in [first, second] {
        let runs: Vec<&Run> = arm.iter().map(|evidence| &evidence.run).collect();
        findings.extend(diff::repeated_prompts(&runs));
        findings.extend(diff::without_effect(&arm[0].run.subject));
    }
    findings
}

/// Runs of one arm that were not made with the same settings.
fn mixed(arm: &[&Evidence]) -> Option<Finding> {
    let first = &arm[0].run.subject;
    let unlike = arm.iter().find_map(|other| {
        let found = diff::differences(first, &other.run.subject);
        found.into_iter().next()
    })?;
    let text = format!("the runs of {} are not alike: {unlike}", first.name);
    Some(Finding::new(Kind::Confounder, text))
}

fn work(first: &Run, second: &Run) -> Option<Finding> {
    let differs = |name: &str| {
        let (one, two) = (first.figures.get(name)?, second.figures.get(name)?);
        ((two / one - 1.0).abs() > WORK_APART).then(|| format!("{name} is {one:.0} and {two:.0}"))
    };
    let names = ["completed", "total_input_tokens", "total_output_tokens"];
    let told: Vec<String> = names.iter().filter_map(|name| differs(name)).collect();
    (!told.is_empty()).then(|| {
        let text = format!("the arms did not do the same work: {}", told.join(", "));
        Finding::new(Kind::Work, text)
    })
}

/// All runs of one arm before all runs of the other.
fn order(first: &[&Evidence], second: &[&Evidence]) -> Option<Finding> {
    if first.len() + second.len() < 3 {
        return None;
    }
    let places = |arm: &[&Evidence]| -> Vec<(String, usize)> {
        arm.iter().map(|evidence| place(&evidence.run)).collect()
    };
    let (one, two) = (places(first), places(second));
    let same_source = one
        .iter()
        .chain(&two)
        .all(|(source, _)| *source == one[0].0);
    let before = |earlier: &[(String, usize)], later: &[(String, usize)]| {
        let last = earlier.iter().map(|(_, at)| at).max();
        last < later.iter().map(|(_, at)| at).min()
    };
    let (early, late) = match (before(&one, &two), before(&two, &one)) {
        _ if !same_source => return None,
        (true, _) => (first, second),
        (_, true) => (second, first),
        _ => return None,
    };
    let text = format!(
        "all runs of {} were made before those of {}: a drift of the machine would look the same",
        early[0].run.subject.name, late[0].run.subject.name
    );
    Some(Finding::new(Kind::Order, text))
}

fn place(run: &Run) -> (String, usize) {
    match &run.origin {
        Origin::Imported { file, line, .. } => (file.clone(), *line),
        Origin::Measured { session, cell, .. } => (session.clone(), *cell),
    }
}
