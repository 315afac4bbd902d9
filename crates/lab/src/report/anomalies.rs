//! Subjects that are out of all proportion to the others on the same load.

use crate::finding::{Finding, Kind};
use crate::run::Evidence;
use crate::statistics::quantile;

/// Slower than the median of the others by this factor.
const TIMES: f64 = 5.0;
/// Fewer subjects have no usual speed.
const AT_LEAST: usize = 3;
const METRIC: &str = "output_throughput";

/// Subjects that make tokens several times more slowly than most on the same load.
pub(super) fn findings(evidence: &[Evidence]) -> Vec<(Finding, Vec<String>)> {
    let mut loads: Vec<&str> = evidence
        .iter()
        .map(|one| one.run.load.name.as_str())
        .collect();
    loads.sort_unstable();
    loads.dedup();
    let mut found = Vec::new();
    for load in loads {
        let runs = evidence
            .iter()
            .map(|one| &one.run)
            .filter(|run| run.load.name == load);
        let speeds: Vec<_> = runs
            .filter_map(|run| Some((run, run.figures.get(METRIC)?)))
            .collect();
        let mut subjects: Vec<&str> = speeds
            .iter()
            .map(|(run, _)| run.subject.name.as_str())
            .collect();
        subjects.sort_unstable();
        subjects.dedup();
        if subjects.len() < AT_LEAST {
            continue;
        }
        for (run, speed) in &speeds {
            let others = speeds
                .iter()
                .filter(|(other, _)| other.subject.name != run.subject.name);
            let mut others: Vec<f64> = others.map(|(_, speed)| *speed).collect();
            let usual = quantile(&mut others, 0.5);
            if speed * TIMES < usual {
                let text = format!(
                    "{} makes {speed:.0} tok/s on {load}, {:.0} times fewer than the median of the \
                     others ({usual:.0}); nothing recorded says why",
                    run.subject.name,
                    usual / speed
                );
                let about = vec![run.short_id().to_owned()];
                found.push((Finding::new(Kind::Outlier, text), about));
            }
        }
    }
    found
}
