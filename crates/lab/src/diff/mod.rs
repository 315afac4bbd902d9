//! What differs between two arms, and what of it should not.

mod idle;
mod info;
mod prompts;

pub use idle::without_effect;
pub use prompts::{repeated_prompts, will_repeat_prompts};

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use crate::finding::{Finding, Kind};
use crate::run::{Run, SubjectFacts};

/// Flags that say where a server listens, not what it does.
const ADDRESS: &[&str] = &[
    "--host",
    "--port",
    "--base-url",
    "--nccl-port",
    "--dist-init-addr",
];

/// What kind of thing differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Aspect {
    /// The model.
    Model,
    /// The program.
    Program,
    /// A flag of the command line.
    Flag,
    /// An environment variable.
    Environment,
    /// A version.
    Version,
    /// A setting that the server worked out for itself.
    Resolved,
}

/// One difference between two arms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its kind.
    pub aspect: Aspect,
    /// What differs.
    pub name: String,
    /// Its value on the first arm; nothing when it is not set there.
    pub first: Option<String>,
    /// Its value on the second arm.
    pub second: Option<String>,
}

impl Difference {
    /// The difference in words, with the names of the arms.
    pub fn sentence(&self, first: &str, second: &str) -> String {
        let name = &self.name;
        match (self.first.as_deref(), self.second.as_deref()) {
            (Some(""), None) => format!("{name} is set on {first} only"),
            (None, Some("")) => format!("{name} is set on {second} only"),
            (Some(value), None) => {
                format!(
                    "{name} is {} on {first} and not set on {second}",
                    short(value)
                )
            }
            (None, Some(value)) => {
                format!(
                    "{name} is {} on {second} and not set on {first}",
                    short(value)
                )
            }
            (one, two) => {
                let (one, two) = (
                    short(one.unwrap_or_default()),
                    short(two.unwrap_or_default()),
                );
                format!("{name} is {one} on {first} and {two} on {second}")
            }
        }
    }

    /// Whether somebody means this difference by a name: dashes and underscores are the same.
    fn is_called(&self, name: &str) -> bool {
        plain(&self.name) == plain(name)
    }

    /// Whether it is about what a name is about: `radix_cache` is what `--disable-radix-cache` sets.
    fn is_about(&self, name: &str) -> bool {
        topic(&self.name) == topic(name)
    }

    /// Whether somebody set it, rather than the server for itself.
    fn is_given(&self) -> bool {
        self.aspect != Aspect::Resolved
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |value: &Option<String>| match value.as_deref() {
            None => "not set".to_owned(),
            Some("") => "set".to_owned(),
            Some(value) => short(value),
        };
        write!(
            out,
            "{}: {} | {}",
            self.name,
            word(&self.first),
            word(&self.second)
        )
    }
}

fn plain(name: &str) -> String {
    name.trim_start_matches('-')
        .replace('_', "-")
        .to_lowercase()
}

/// What a setting is about, whichever way it sets it.
fn topic(name: &str) -> String {
    const WAYS: &[&str] = &["disable-", "enable-", "no-", "use-"];
    let mut name = plain(name);
    while let Some(rest) = WAYS.iter().find_map(|way| name.strip_prefix(way)) {
        name = rest.to_owned();
    }
    name
}

/// A value on one line and of a length that can be read.
fn short(value: &str) -> String {
    const LONGEST: usize = 60;
    let line = value.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Everything that differs between two subjects as far as it was recorded.
pub fn differences(first: &SubjectFacts, second: &SubjectFacts) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut add = |aspect, name: &str, one: Option<String>, two: Option<String>| {
        if one != two {
            found.push(Difference {
                aspect,
                name: name.to_owned(),
                first: one,
                second: two,
            });
        }
    };
    add(
        Aspect::Model,
        "model",
        first.model.clone(),
        second.model.clone(),
    );
    add(Aspect::Program, "program", program(first), program(second));
    let (one, two) = (&first.environment, &second.environment);
    for name in union(one.keys().cloned(), two.keys().cloned()) {
        add(
            Aspect::Environment,
            &name,
            one.get(&name).cloned(),
            two.get(&name).cloned(),
        );
    }
    // the settings of different programs have different names, or mean different things
    if kind(first) != kind(second) {
        return found;
    }
    for name in union(flag_names(first), flag_names(second)) {
        add(Aspect::Flag, &name, flag(first, &name), flag(second, &name));
    }
    let (one, two) = (&first.versions, &second.versions);
    for name in union(one.keys().cloned(), two.keys().cloned()) {
        add(
            Aspect::Version,
            &name,
            one.get(&name).cloned(),
            two.get(&name).cloned(),
        );
    }
    let resolved = info::differences(first, second);
    let known =
        |difference: &Difference| found.iter().any(|other| other.is_called(&difference.name));
    let resolved: Vec<_> = resolved
        .into_iter()
        .filter(|difference| !known(difference))
        .collect();
    found.extend(resolved);
    found
}

fn union(
    first: impl IntoIterator<Item = String>,
    second: impl IntoIterator<Item = String>,
) -> BTreeSet<String> {
    first.into_iter().chain(second).collect()
}

fn program(subject: &SubjectFacts) -> Option<String> {
    let words = &subject.command.as_ref()?.program;
    let words = words.iter().map(|word| match word.as_str() {
        "python3" => "python",
        other => other,
    });
    Some(words.collect::<Vec<_>>().join(" ")).filter(|words| !words.is_empty())
}

/// Which server a program is, wherever it lies and whoever starts it.
fn kind(subject: &SubjectFacts) -> Option<&str> {
    let words = &subject.command.as_ref()?.program;
    let serve = words
        .iter()
        .position(|word| word == "serve")
        .filter(|at| *at > 0);
    let word = serve.map_or_else(|| words.last(), |at| words.get(at - 1))?;
    Some(match word.rsplit('/').next().unwrap_or(word) {
        "launch_server_from_source.sh" | "launch_server" => "sglang.launch_server",
        name => name,
    })
}

fn flag_names(subject: &SubjectFacts) -> Vec<String> {
    let flags = subject.command.iter().flat_map(|command| &command.flags);
    let names = flags.map(|(name, _)| name.clone());
    let told_elsewhere =
        |name: &String| ADDRESS.contains(&name.as_str()) || name.starts_with("--model");
    names.filter(|name| !told_elsewhere(name)).collect()
}

fn flag(subject: &SubjectFacts, name: &str) -> Option<String> {
    subject
        .command
        .as_ref()?
        .flag(name)
        .map(|words| words.join(" "))
}

/// The difference that is meant: the one that was named, the one that the arms are named after, or
/// the only one.
pub fn variable<'a>(
    differences: &'a [Difference],
    named: Option<&str>,
    arms: (&str, &str),
) -> Option<&'a Difference> {
    if let Some(named) = named {
        let called = differences.iter().find(|one| one.is_called(named));
        return called.or_else(|| differences.iter().find(|one| one.is_about(named)));
    }
    let gave_names = |difference: &&Difference| {
        difference.first.as_deref() == Some(arms.0) && difference.second.as_deref() == Some(arms.1)
    };
    let only = || match differences {
        [only] => Some(only),
        _ => None,
    };
    differences.iter().find(gave_names).or_else(only)
}

/// Differences beside the one that is meant. What follows from it is no other difference: a setting of
/// the same name, and on the same machine whatever a server worked out for itself when nothing else was
/// given.
pub fn beside<'a>(
    differences: &'a [Difference],
    meant: Option<&Difference>,
    same_machine: bool,
) -> Vec<&'a Difference> {
    let Some(meant) = meant else {
        return differences.iter().collect();
    };
    let (same, others): (Vec<&Difference>, Vec<&Difference>) = differences
        .iter()
        .partition(|one| one.is_about(&meant.name));
    let given = |list: &[&Difference]| list.iter().any(|one| one.is_given());
    if same_machine && given(&same) && !given(&others) {
        return Vec::new();
    }
    others
}

/// What stands in the way of putting an effect down to one cause.
pub fn confounders(first: &Run, second: &Run, named: Option<&str>) -> Vec<Finding> {
    let found = differences(&first.subject, &second.subject);
    let arms = (first.subject.name.as_str(), second.subject.name.as_str());
    let meant = variable(&found, named, arms);
    let same_machine = first.machine.is_some() && first.machine == second.machine;
    let others = beside(&found, meant, same_machine);
    let listed = |list: &[&Difference]| {
        let sentences = list
            .iter()
            .map(|difference| difference.sentence(arms.0, arms.1));
        sentences.collect::<Vec<_>>().join("; ")
    };
    let text = match (meant, others.as_slice()) {
        (Some(_), []) => return Vec::new(),
        (None, []) => match (first.note(), second.note()) {
            (Some(one), Some(two)) if one != two => {
                format!(
                    "nothing that was recorded differs between the arms, only the remarks {one} and {two}"
                )
            }
            _ if arms.0 == arms.1 => return Vec::new(),
            _ => "nothing that was recorded differs between the arms".to_owned(),
        },
        (Some(meant), others) => {
            format!(
                "the arms differ in more than {}: {}",
                meant.name,
                listed(others)
            )
        }
        (None, others) => format!(
            "the arms differ in {} settings, so an effect cannot be put down to one of them: {}",
            others.len(),
            listed(others)
        ),
    };
    vec![Finding::new(Kind::Confounder, text)]
}

#[cfg(test)]
mod tests;
