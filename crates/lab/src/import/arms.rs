//! Names for the subjects of a text that has none, and which run repeats which.

use std::collections::BTreeMap;

use super::ImportedRun;
use super::jsonl::LAYOUT;
use crate::run::{Origin, Run};

/// The name of a subject of which nothing is known.
pub const UNNAMED: &str = "unnamed";

/// Settings that say where a server listens, not what it does.
const ADDRESS: &[&str] = &["--host", "--port"];

/// Gives every run the name of its subject and its number among the runs of one load on it.
pub(super) fn name(runs: &mut [ImportedRun]) {
    let names = names(runs);
    for (found, name) in runs.iter_mut().zip(names) {
        if found.run.subject.name.is_empty() {
            found.run.subject.name = name;
        }
    }
    let mut seen: BTreeMap<(String, String), u32> = BTreeMap::new();
    for found in runs {
        let run = &mut found.run;
        let arm = (run.subject.name.clone(), run.load.name.clone());
        let count = seen.entry(arm).or_default();
        *count += 1;
        run.repeat = *count;
    }
}

type Settings = BTreeMap<String, String>;

/// The model's name and whatever tells its subjects apart: settings first, remarks where settings
/// are the same.
fn names(runs: &[ImportedRun]) -> Vec<String> {
    let settings: Vec<Settings> = runs.iter().map(|found| settings_of(&found.run)).collect();
    let model = |run: &Run| match (&run.subject.model, tag(run)) {
        (Some(model), Some(tag)) => format!("{model} {tag}"),
        (Some(model), None) => model.clone(),
        (None, Some(tag)) => tag.to_owned(),
        (None, None) => UNNAMED.to_owned(),
    };
    let mut names = Vec::new();
    for (place, found) in runs.iter().enumerate() {
        let run = &found.run;
        let same_model = |other: &usize| model(&runs[*other].run) == model(run);
        let siblings: Vec<usize> = (0..runs.len()).filter(same_model).collect();
        let mut parts = vec![model(run)];
        for key in varying(&siblings, &settings) {
            parts.push(match settings[place].get(key) {
                Some(value) if value.is_empty() => key.clone(),
                Some(value) => format!("{key}={value}"),
                None => format!("no {key}"),
            });
        }
        let alike = siblings.iter().filter(|other| {
            settings[**other] == settings[place] && runs[**other].run.load.name == run.load.name
        });
        let mut notes: Vec<Option<&str>> = alike.map(|other| runs[*other].run.note()).collect();
        notes.dedup();
        if notes.len() > 1 {
            parts.extend(run.note().map(str::to_owned));
        }
        names.push(parts.join(" "));
    }
    names
}

/// The tag of a result line; its runs are told apart by it.
fn tag(run: &Run) -> Option<&str> {
    match &run.origin {
        Origin::Imported { layout, note, .. } if layout == LAYOUT => note.as_deref(),
        _ => None,
    }
}

/// Keys that are not the same in all of these settings.
fn varying<'a>(among: &[usize], settings: &'a [Settings]) -> Vec<&'a String> {
    let mut keys: Vec<&String> = among
        .iter()
        .flat_map(|place| settings[*place].keys())
        .collect();
    keys.sort();
    keys.dedup();
    let differs = |key: &&String| {
        let first = settings[among[0]].get(*key);
        among
            .iter()
            .any(|place| settings[*place].get(*key) != first)
    };
    keys.into_iter().filter(differs).collect()
}

fn settings_of(run: &Run) -> Settings {
    let flags = run
        .subject
        .command
        .iter()
        .flat_map(|command| &command.flags);
    let flags = flags
        .filter(|(flag, _)| !ADDRESS.contains(&flag.as_str()) && !flag.starts_with("--model"))
        .map(|(flag, words)| (flag.clone(), words.join(" ")));
    let environment = run.subject.environment.iter();
    let environment = environment.map(|(name, value)| (name.clone(), value.clone()));
    flags.chain(environment).collect()
}
