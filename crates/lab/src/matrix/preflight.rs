//! What can be said about a plan before anything is run.

use super::plan::{DriverPlan, Plan, Servers};
use crate::command_line::{CommandLine, quote};
use crate::diff::{
    Aspect, Difference, beside, differences, variable, will_repeat_prompts, without_effect,
};
use crate::finding::{Finding, Kind};
use crate::run::{LoadFacts, SubjectFacts};

/// Differences that are listed one by one.
const LISTED: usize = 8;

/// Warnings about a plan, by what is known of its subjects.
pub(crate) fn preflight(plan: &Plan, facts: &[SubjectFacts]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some((first, others)) = facts.split_first() {
        findings.extend(others.iter().filter_map(|other| arms(first, other, plan)));
    }
    if plan.servers != Servers::Fresh && plan.repeats > 1 {
        findings.extend(repeated(plan, facts));
    }
    for finding in facts.iter().flat_map(without_effect) {
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }
    findings
}

/// Says in what two subjects differ by their own word and not by how they are started.
pub(super) fn resolved(first: &SubjectFacts, other: &SubjectFacts, plan: &Plan) -> Option<Finding> {
    let found = differences(first, other);
    let (one, two) = (first.name.as_str(), other.name.as_str());
    let named = plan.variable.as_deref();
    let meant = named.and_then(|named| variable(&found, Some(named), (one, two)));
    let mut others = beside(&found, meant, true);
    others.retain(|one| matches!(one.aspect, Aspect::Version | Aspect::Resolved));
    (!others.is_empty()).then(|| {
        let listed = listed(&others, (one, two));
        let text = format!("{one} and {two} differ by their own word: {listed}");
        Finding::new(Kind::Confounder, text)
    })
}

fn listed(differences: &[&Difference], names: (&str, &str)) -> String {
    let shown = differences.iter().take(LISTED);
    let mut listed: Vec<String> = shown.map(|one| one.sentence(names.0, names.1)).collect();
    match differences.len().saturating_sub(LISTED) {
        0 => {}
        more => listed.push(format!("and {more} more")),
    }
    listed.join("; ")
}

/// Says in what two subjects differ beyond what they are meant to.
fn arms(first: &SubjectFacts, other: &SubjectFacts, plan: &Plan) -> Option<Finding> {
    let found = differences(first, other);
    let names = (first.name.as_str(), other.name.as_str());
    let meant = variable(&found, plan.variable.as_deref(), names);
    let others = beside(&found, meant, true);
    let listed = listed(&others, names);
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
    use crate::subject::Places;

    fn told(head: &str, first: &str, second: &str, load: &str) -> Vec<String> {
        let text = format!(
            "name = \"x\"\n{head}\n[[subject]]\nname = \"a\"\ncommand = \"llama-server {first}\"\n\
             [[subject]]\nname = \"b\"\ncommand = \"llama-server {second}\"\n\
             [[load]]\nname = \"l\"\nbench = \"{load}\"\n"
        );
        let plan = Plan::parse(&text).unwrap();
        let facts = plan
            .subjects
            .iter()
            .map(|one| one.facts(&Places::default()));
        let found = preflight(&plan, &facts.collect::<Vec<_>>());
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
    fn what_servers_say_of_themselves_is_compared() {
        let text = "name = \"x\"\n[[subject]]\nname = \"a\"\ncommand = \"s\"\n[[subject]]\n\
            name = \"b\"\ncommand = \"s\"\nenvironment = { SGLANG_ENABLE_FLASHINFER_GEMM = \"1\" }\n\
            [[load]]\nname = \"l\"\nbench = \"\"\n";
        let plan = Plan::parse(text).unwrap();
        let told = |one: serde_json::Value, two: serde_json::Value| {
            let mut facts: Vec<SubjectFacts> = plan
                .subjects
                .iter()
                .map(|one| one.facts(&Places::default()))
                .collect();
            (facts[0].info, facts[1].info) = (Some(one), Some(two));
            let own = resolved(&facts[0], &facts[1], &plan);
            let all: Vec<String> = preflight(&plan, &facts)
                .iter()
                .map(ToString::to_string)
                .collect();
            (own.map(|finding| finding.text), all)
        };
        let info = |backend: &str| {
            serde_json::json!({
                "attention_backend": backend, "port": backend,
                "accepted_without_effect": { "--x": "it is ignored" }
            })
        };
        let (own, all) = told(info("fa3"), info("triton"));
        assert_eq!(
            own.as_deref(),
            Some("a and b differ by their own word: attention_backend is fa3 on a and triton on b")
        );
        assert!(
            all[0].starts_with("confounder: a and b differ in 2 settings"),
            "{all:?}"
        );
        assert_eq!(all[1], "no effect: --x had no effect: it is ignored");
        assert!(all[2].contains("acts on Blackwell"), "{all:?}");
        assert_eq!(all.len(), 3, "{all:?}");
        assert_eq!(told(info("fa3"), info("fa3")).0, None);
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
