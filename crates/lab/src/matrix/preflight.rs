//! What can be said about a plan before anything is run.

use super::plan::{DriverPlan, Plan, Servers};
use crate::command_line::{CommandLine, quote};
use crate::diff::{Difference, differences, variable, will_repeat_prompts};
use crate::finding::{Finding, Kind};
use crate::run::{LoadFacts, SubjectFacts};
use crate::subject::Places;

/// Warnings about a plan.
pub(crate) fn preflight(plan: &Plan, places: &Places) -> Vec<Finding> {
    let facts: Vec<SubjectFacts> = plan
        .subjects
        .iter()
        .map(|subject| subject.facts(places))
        .collect();
    let mut findings = Vec::new();
    if let Some((first, others)) = facts.split_first() {
        findings.extend(others.iter().filter_map(|other| arms(first, other, plan)));
    }
    if plan.servers != Servers::Fresh && plan.repeats > 1 {
        findings.extend(repeated(plan, &facts));
    }
    findings
}

/// Says in what two subjects differ beyond what they are meant to.
fn arms(first: &SubjectFacts, other: &SubjectFacts, plan: &Plan) -> Option<Finding> {
    let found = differences(first, other);
    let names = (first.name.as_str(), other.name.as_str());
    let meant = variable(&found, plan.variable.as_deref(), names);
    let others: Vec<&Difference> = found.iter().filter(|one| Some(*one) != meant).collect();
    let listed = others
        .iter()
        .map(|one| one.sentence(names.0, names.1))
        .collect::<Vec<_>>();
    let listed = listed.join("; ");
    let text = match (meant, others.len()) {
        (Some(_), 0) => return None,
        (None, 0) => format!("{} and {} do not differ in anything", names.0, names.1),
        (Some(meant), _) => format!(
            "{} and {} differ in more than {}: {listed}",
            names.0, names.1, meant.name
        ),
        (None, count) => format!(
            "{} and {} differ in {count} settings, so an effect cannot be put down to one of them: {listed}",
            names.0, names.1
        ),
    };
    Some(Finding::new(Kind::Confounder, text))
}

/// Loads that send the same prompts again to servers that are kept.
fn repeated(plan: &Plan, facts: &[SubjectFacts]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for load in &plan.loads {
        let (DriverPlan::Bench(words) | DriverPlan::Command(words)) = &load.driver;
        if words.iter().any(|word| word.contains("{repeat}")) {
            continue;
        }
        let line = words
            .iter()
            .map(|word| quote(word))
            .collect::<Vec<_>>()
            .join(" ");
        let flags = CommandLine::flags_only(&line).flags;
        let has = |name: &str| flags.iter().find(|(flag, _)| flag == name);
        let mut settings = std::collections::BTreeMap::new();
        if has("--flush-cache").is_some() {
            settings.insert("flush_cache".to_owned(), true.into());
        }
        // our own client empties the cache unless it is told otherwise
        let ours = matches!(load.driver, DriverPlan::Bench(_)) && has("--reference").is_none();
        let otherwise = if ours { "cold" } else { "" };
        let cache =
            has("--cache").map_or_else(|| otherwise.to_owned(), |(_, words)| words.join(" "));
        settings.insert("cache".to_owned(), cache.into());
        let facts_of_load = LoadFacts {
            settings,
            ..LoadFacts::default()
        };
        let remembering: Vec<&str> = plan
            .subjects
            .iter()
            .zip(facts)
            .filter(|(subject, facts)| {
                subject.flush_path.is_none() && will_repeat_prompts(facts, &facts_of_load)
            })
            .map(|(subject, _)| subject.name.as_str())
            .collect();
        if !remembering.is_empty() {
            let text = format!(
                "{} sends the same prompts in every repeat to servers that are kept and remember \
                 them ({}); write {{repeat}} into its seed, or flush",
                load.name,
                remembering.join(", ")
            );
            findings.push(Finding::new(Kind::RepeatedPrompts, text));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(head: &str, first: &str, second: &str, load: &str) -> Vec<String> {
        let text = format!(
            "name = \"x\"\n{head}\n[[subject]]\nname = \"a\"\ncommand = \"llama-server {first}\"\n\
             [[subject]]\nname = \"b\"\ncommand = \"llama-server {second}\"\n\
             [[load]]\nname = \"l\"\nbench = \"{load}\"\n"
        );
        let plan = Plan::parse(&text).unwrap();
        let found = preflight(&plan, &Places::default());
        found
            .into_iter()
            .map(|finding| finding.to_string())
            .collect()
    }

    #[test]
    fn arms_that_differ_too_much_or_not_at_all_are_told() {
        assert_eq!(told("", "--x 1", "--x 2", ""), [""; 0]);
        assert_eq!(
            told("", "--x 1", "--x 1", ""),
            ["confounder: a and b do not differ in anything"]
        );
        assert_eq!(
            told("variable = \"x\"", "--x 1", "--x 2 --y", ""),
            ["confounder: a and b differ in more than --x: --y is set on b only"]
        );
        let two = told("", "--x 1", "--x 2 --y", "");
        assert!(
            two[0].starts_with("confounder: a and b differ in 2 settings"),
            "{two:?}"
        );
    }

    #[test]
    fn prompts_that_come_again_are_told() {
        let kept = "servers = \"kept\"";
        assert_eq!(told(kept, "--x 1", "--x 2", "--seed {repeat}"), [""; 0]);
        assert_eq!(told(kept, "--x 1", "--x 2", "--flush-cache"), [""; 0]);
        let both = told(kept, "--x 1", "--x 2", "--cache warm");
        assert!(both[0].contains("remember them (a, b)"), "{both:?}");
        let one = told(kept, "--disable-radix-cache", "--x 2", "--cache as-is");
        assert!(
            one.iter().any(|text| text.contains("remember them (b)")),
            "{one:?}"
        );
    }
}
