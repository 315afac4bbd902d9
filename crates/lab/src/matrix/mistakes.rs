//! What is wrong with the command lines of a plan, found before anything is started.

use std::path::Path;

use bench::serving::{Options, ServingError};
use flags::FlagError;

use super::plan::{DriverPlan, LoadPlan, Plan};
use crate::CheckServe;
use crate::driver::{self, Outputs};
use crate::subject::{HOST, Places, Subject};

/// Any port will do to read a command line.
const PORT: &str = "30000";

/// Every mistake in the plan's command lines, as far as we know the programs: our own client and our
/// own server. Models that are named by a path must be there.
pub(crate) fn mistakes(plan: &Plan, check_serve: CheckServe<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for one in &plan.subjects {
        let wrong = subject(one, check_serve);
        found.extend(wrong.map(|wrong| format!("subject {:?}: {wrong}", one.name)));
    }
    for one in &plan.loads {
        let wrong = load(one);
        found.extend(wrong.map(|wrong| format!("load {:?}: {wrong}", one.name)));
    }
    found
}

fn places(subject: Option<&Subject>) -> Places {
    let model = subject.and_then(|subject| subject.model.clone());
    Places {
        values: vec![
            ("model", model.unwrap_or_default()),
            ("host", HOST.to_owned()),
            ("port", PORT.to_owned()),
            ("url", format!("http://{HOST}:{PORT}")),
            ("repeat", "1".to_owned()),
            ("scratch", ".".to_owned()),
        ],
    }
}

fn subject(subject: &Subject, check_serve: CheckServe<'_>) -> Option<String> {
    if subject.container.is_some() {
        return None;
    }
    let folder = subject.folder.as_deref();
    if let Some(model) = subject.model.as_deref().filter(|model| is_path(model)) {
        let path = folder.map_or_else(|| Path::new(model).to_owned(), |folder| folder.join(model));
        if !path.exists() {
            return Some(format!("there is no model at {}", path.display()));
        }
    }
    let places = places(Some(subject));
    match subject.words.as_slice() {
        [program, serve, rest @ ..] if program == "{self}" && serve == "serve" => {
            let words: Vec<String> = rest.iter().map(|word| places.fill(word)).collect();
            check_serve(&words, folder).err()
        }
        _ => None,
    }
}

/// Whether a model's name can be nothing but a path.
fn is_path(model: &str) -> bool {
    let is_file = Path::new(model)
        .extension()
        .is_some_and(|end| end == "gguf");
    model.starts_with(['/', '.', '~']) || (is_file && !model.contains(':'))
}

fn load(load: &LoadPlan) -> Option<String> {
    let DriverPlan::Bench(_) = load.driver else {
        return None;
    };
    let outputs = Outputs::within(Path::new("."));
    let words = driver::words(&load.driver, &places(None), &outputs);
    // after the program and its two words
    let read = |mut options: Options| {
        options.settle_dataset()?;
        options.source().map(drop)
    };
    match Options::parse(&words[3..]).and_then(read) {
        Ok(()) => None,
        Err(ServingError::Flags(FlagError::HelpAsked)) => Some("--help runs no load".to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(subject: &str, load: &str) -> Vec<String> {
        let text = format!(
            "name = \"x\"\n[[subject]]\nname = \"a\"\n{subject}\n[[load]]\nname = \"l\"\n{load}\n"
        );
        let check = |words: &[String], _: Option<&Path>| match words.join(" ").as_str() {
            line if line.contains("--treads") => Err(format!("no such thing in: {line}")),
            _ => Ok(()),
        };
        mistakes(&Plan::parse(&text).unwrap(), &check)
    }

    const OURS: &str = "preset = \"peregrine\"\nmodel = \"org/name\"";
    const FINE: &str = "bench = \"--dataset-name random-ids --num-prompts 8 --seed {repeat}\"";

    #[test]
    fn a_plan_without_mistakes_has_none() {
        assert_eq!(told(OURS, FINE), [""; 0]);
        assert_eq!(told(OURS, "command = \"other --backnd\""), [""; 0]);
        let lmdeploy = "bench = \"--client lmdeploy --dataset-path x.json\"";
        assert_eq!(told(OURS, lmdeploy), [""; 0]);
    }

    #[test]
    fn options_of_our_own_programs_are_read_before_they_are_used() {
        let both = told(
            &format!("{OURS}\nargs = \"--treads 2\""),
            "bench = \"--backnd vllm\"",
        );
        assert_eq!(
            both,
            [
                "subject \"a\": no such thing in: --model-path org/name --host 127.0.0.1 --port 30000 \
                 --treads 2",
                "load \"l\": unknown option --backnd; did you mean --backend?",
            ]
        );
        for (bench, expected) in [
            ("--num-prompts many", "invalid int value"),
            ("--pace gamma", "need each other"),
            ("--help", "--help runs no load"),
            (
                "--dataset-name sharegpt",
                "--dataset-name random-ids, which needs none",
            ),
        ] {
            let found = told(OURS, &format!("bench = \"{bench}\""));
            assert!(found[0].contains(expected), "{found:?}");
        }
        let other = "preset = \"peregrine\"\nprogram = \"older/peregrine\"\nmodel = \"org/name\"\n\
            args = \"--treads 2\"";
        assert_eq!(told(other, FINE), [""; 0], "another build may know it");
    }

    #[test]
    fn a_model_that_is_a_path_must_be_there() {
        for preset in ["peregrine", "llama.cpp", "vllm"] {
            let subject = format!("preset = \"{preset}\"\nmodel = \"./no/such/model\"");
            assert_eq!(
                told(&subject, FINE),
                ["subject \"a\": there is no model at ./no/such/model"]
            );
            let there = format!("preset = \"{preset}\"\nmodel = \"./src\"");
            assert_eq!(told(&there, FINE), [""; 0]);
            let inside = format!("{subject}\ncontainer = {{ image = \"maker/image:1\" }}");
            assert_eq!(
                told(&inside, FINE),
                [""; 0],
                "a container has its own files"
            );
            let beside = format!("preset = \"{preset}\"\nmodel = \"./lib.rs\"\nfolder = \"src\"");
            assert_eq!(told(&beside, FINE), [""; 0]);
        }
    }
}
