//! Servers under test: started, waited for, asked, stopped.

mod container;
mod leftovers;
mod log;
mod preset;
mod process;
mod server;

pub(crate) use container::Container;
pub(crate) use leftovers::{Leftover, sweep};
pub(crate) use log::{Log, Stamps};
pub(crate) use preset::NoSuchPreset;
pub(crate) use preset::Preset;
pub(crate) use process::{Launch, Process, Stopped};
pub(crate) use server::{Server, StartFailure};

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use crate::command_line::{CommandLine, quote};
use crate::os::Signal;
use crate::run::SubjectFacts;

/// The address every server is given.
pub(crate) const HOST: &str = "127.0.0.1";

/// A server under test, as a plan describes it.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    /// Its name among the arms.
    pub(crate) name: String,
    /// The words that start it, with places to be filled in.
    pub(crate) words: Vec<String>,
    /// Variables on top of our own environment.
    pub(crate) environment: BTreeMap<String, String>,
    /// Its working folder.
    pub(crate) folder: Option<PathBuf>,
    /// The model it serves.
    pub(crate) model: Option<String>,
    /// When it can be used.
    pub(crate) ready: Ready,
    /// How it is stopped.
    pub(crate) stop: Stop,
    /// The path of what it says about itself.
    pub(crate) info_path: Option<String>,
    /// The path that empties its prefix cache, when that is to be done before every load.
    pub(crate) flush_path: Option<String>,
    /// Bytes of its log that are kept.
    pub(crate) log_limit: u64,
    /// The container it runs in, if any.
    pub(crate) container: Option<Container>,
}

/// When a server can be used: everything given here has to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ready {
    /// A path that answers 200.
    pub(crate) path: Option<String>,
    /// A line of its log.
    pub(crate) line: Option<String>,
    /// How long it may take.
    pub(crate) within: Duration,
}

impl Ready {
    /// By what it is seen that a server can be used, in a few words.
    pub(crate) fn sign(&self) -> String {
        let path = self.path.as_ref().map(|path| format!("GET {path} 200"));
        self.line.clone().or(path).unwrap_or_default()
    }
}

/// How a server is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stop {
    /// The signal it is asked with.
    pub(crate) signal: Signal,
    /// How long it may take before it is killed.
    pub(crate) grace: Duration,
}

impl Subject {
    /// What is started for a server on this port. A container gets a name, so that it can be stopped.
    pub(crate) fn launch(&self, places: &Places, mark: &str) -> Launch {
        let words: Vec<String> = self.words.iter().map(|word| places.fill(word)).collect();
        let words = match &self.container {
            None => words,
            Some(container) => container.around(words, self, mark),
        };
        Launch {
            words,
            environment: self.environment.clone(),
            folder: self.folder.clone().filter(|_| self.container.is_none()),
            mark: mark.to_owned(),
        }
    }

    /// What is known of it before it runs.
    pub(crate) fn facts(&self, places: &Places) -> SubjectFacts {
        let launch = self.launch(places, "lab");
        let line = launch
            .words
            .iter()
            .map(|word| quote(word))
            .collect::<Vec<_>>()
            .join(" ");
        let command = CommandLine::server(&line).unwrap_or_else(|| CommandLine::flags_only(&line));
        let named = command.model().map(str::to_owned);
        let model = self.model.as_ref().map(|path| last_part(path).to_owned());
        let mut versions = BTreeMap::new();
        if let Some(container) = &self.container {
            versions.insert("image".to_owned(), container.image.clone());
        }
        SubjectFacts {
            name: self.name.clone(),
            model: model.or(named),
            command: Some(command),
            environment: self.environment.clone(),
            versions,
            info: None,
        }
    }
}

fn last_part(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    path.rsplit('/').next().unwrap_or(path)
}

/// What is filled into the words of a plan.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    /// Names without braces, and values.
    pub(crate) values: Vec<(&'static str, String)>,
}

impl Places {
    /// The word with every known `{name}` replaced; other braces stay.
    pub(crate) fn fill(&self, word: &str) -> String {
        let mut filled = word.to_owned();
        for (name, value) in &self.values {
            filled = filled.replace(&format!("{{{name}}}"), value);
        }
        filled
    }
}

/// A port that nobody uses at the moment.
pub(crate) fn free_port() -> std::io::Result<u16> {
    let listener = TcpListener::bind((HOST, 0))?;
    Ok(listener.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject {
        Subject {
            name: "one".to_owned(),
            words: [
                "{self}",
                "serve",
                "--model-path",
                "{model}",
                "--port",
                "{port}",
                "{\"a\": 1}",
            ]
            .map(str::to_owned)
            .to_vec(),
            environment: BTreeMap::from([("X".to_owned(), "1".to_owned())]),
            folder: None,
            model: Some("store/tiny.gguf".to_owned()),
            ready: Ready {
                path: None,
                line: None,
                within: Duration::ZERO,
            },
            stop: Stop {
                signal: Signal::Terminate,
                grace: Duration::ZERO,
            },
            info_path: None,
            flush_path: None,
            log_limit: 1 << 20,
            container: None,
        }
    }

    fn places() -> Places {
        Places {
            values: vec![
                ("self", "bin/peregrine".to_owned()),
                ("model", "store/tiny.gguf".to_owned()),
                ("port", "1234".to_owned()),
            ],
        }
    }

    #[test]
    fn places_are_filled_and_other_braces_stay() {
        let launch = subject().launch(&places(), "m");
        let expected = [
            "bin/peregrine",
            "serve",
            "--model-path",
            "store/tiny.gguf",
            "--port",
            "1234",
            "{\"a\": 1}",
        ];
        assert_eq!(launch.words, expected);
        let facts = subject().facts(&places());
        assert_eq!(facts.model.as_deref(), Some("tiny.gguf"));
        assert_eq!(
            facts.command.unwrap().flag("--port"),
            Some(&["1234".into(), "{\"a\": 1}".into()][..])
        );
    }

    #[test]
    fn ports_are_free() {
        let port = free_port().unwrap();
        assert!(TcpListener::bind((HOST, port)).is_ok());
    }
}
