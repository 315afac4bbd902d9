//! What stands before a table and says what it is the table of.

use std::collections::BTreeMap;

use serde_json::Value;

use super::matrix_log::{self, Said};
use super::settings::{self, number_of};
use super::table::Table;
use super::{ImportedRun, load_name, python};
use crate::command_line::{CommandLine, assignment, words};
use crate::finding::{Finding, Kind};
use crate::run::{LoadFacts, Origin, Outcome, Run, SubjectFacts, identifier};

/// The state of reading a text.
pub(super) struct Context<'a> {
    pub(super) file: &'a str,
    /// Whether the text has fenced blocks, so that lines outside of them are prose.
    is_document: bool,
    fenced: bool,
    headings: Vec<(usize, String)>,
    note: Option<String>,
    /// Options that prose says were used.
    claims: Vec<CommandLine>,
    exports: BTreeMap<String, String>,
    pub(super) versions: BTreeMap<String, String>,
    pub(super) images: Vec<String>,
    server: Option<CommandLine>,
    client: Option<CommandLine>,
    echo: Option<BTreeMap<String, Value>>,
    warmup: Option<f64>,
    cell: Option<(String, String)>,
}

impl<'a> Context<'a> {
    pub(super) fn new(file: &'a str, lines: &[&str]) -> Self {
        Self {
            file,
            is_document: lines.iter().any(|line| line.starts_with("```")),
            fenced: false,
            headings: Vec::new(),
            note: None,
            claims: Vec::new(),
            exports: BTreeMap::new(),
            versions: BTreeMap::new(),
            images: Vec::new(),
            server: None,
            client: None,
            echo: None,
            warmup: None,
            cell: None,
        }
    }

    /// Takes in a line that is no result.
    pub(super) fn take_in(&mut self, line: &str) {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            return;
        }
        if trimmed.starts_with("```") {
            self.fenced = !self.fenced;
        } else if let Some(said) = matrix_log::said(trimmed) {
            self.hear(&said);
        } else if trimmed.contains("Namespace(") {
            let echo = python::namespace(trimmed);
            self.echo = echo
                .map(|pairs| pairs.into_iter().collect())
                .or(self.echo.take());
        } else if let Some(time) = trimmed.strip_prefix("warmup time:") {
            self.warmup = time.trim().trim_end_matches('s').parse().ok();
        } else if let Some(words_after) = trimmed.strip_prefix("export ") {
            self.exports.extend(
                words(words_after)
                    .iter()
                    .filter_map(|word| assignment(word)),
            );
        } else if self.is_document && !self.fenced {
            self.take_in_prose(trimmed);
        } else {
            self.take_in_plain(trimmed);
        }
    }

    fn hear(&mut self, said: &Said<'_>) {
        match said {
            Said::Cell { server, client } => {
                self.cell = Some(((*server).to_owned(), (*client).to_owned()));
            }
            Said::Start { command } => {
                self.server = CommandLine::server(command).or_else(|| {
                    let command = CommandLine::flags_only(command);
                    (!command.flags.is_empty()).then_some(command)
                });
            }
            Said::Load { command } => self.client = CommandLine::client(command),
            Said::Ended { .. } | Said::Done => {}
        }
    }

    fn take_in_prose(&mut self, trimmed: &str) {
        let level = trimmed.bytes().take_while(|byte| *byte == b'#').count();
        if level > 0 && trimmed[level..].starts_with(' ') {
            self.headings.retain(|(other, _)| *other < level);
            self.headings.push((level, plain(&trimmed[level..])));
            self.note = None;
            self.claims.clear();
            return;
        }
        self.claims.extend(claims(trimmed));
        let sentence = trimmed.starts_with(['|', '<', '!', '-', '[']) || trimmed.len() > 240;
        if !sentence {
            self.note = Some(plain(trimmed)).filter(|note| !note.is_empty());
        }
    }

    fn take_in_plain(&mut self, trimmed: &str) {
        if let Some(rest) = trimmed.strip_prefix("Running benchmark ") {
            let args = rest
                .rsplit_once(" with backend:")
                .map_or(rest, |(args, _)| args);
            self.client = Some(CommandLine::flags_only(args));
        } else if let Some(image) = trimmed.strip_prefix("Image:") {
            self.images.push(image.trim().to_owned());
        } else if let Some(server) = CommandLine::server(trimmed) {
            self.images.extend(server.image.clone());
            self.server = Some(server);
        } else if let Some(client) =
            CommandLine::client(trimmed.strip_prefix("COMMAND: ").unwrap_or(trimmed))
        {
            self.client = Some(client);
        } else if let Some((package, version)) = package(trimmed) {
            self.versions.insert(package.to_owned(), version.to_owned());
        }
    }

    pub(super) fn origin(&self, line: usize, layout: &str) -> Origin {
        Origin::Imported {
            file: self.file.to_owned(),
            line,
            section: self.headings.iter().map(|(_, text)| text.clone()).collect(),
            note: self.note.clone(),
            layout: layout.to_owned(),
        }
    }

    pub(super) fn subject(&self, model: Option<String>) -> SubjectFacts {
        let mut environment = self.exports.clone();
        let command = self.server.clone();
        environment.extend(
            command
                .iter()
                .flat_map(|command| command.environment.clone()),
        );
        let named = command
            .as_ref()
            .and_then(CommandLine::model)
            .map(str::to_owned);
        let mut versions = self.versions.clone();
        let image = command.as_ref().and_then(|command| command.image.as_ref());
        if let Some(image) = image.or(self.images.last()) {
            versions.insert("image".to_owned(), image.clone());
        }
        SubjectFacts {
            name: self
                .cell
                .as_ref()
                .map(|(server, _)| server.clone())
                .unwrap_or_default(),
            model: model.or(named),
            command,
            environment,
            versions,
            info: None,
        }
    }

    /// The run of a table on this line.
    pub(super) fn table_run(&mut self, table: &Table, line: usize, text: String) -> ImportedRun {
        let mut figures = table.figures();
        if let Some(seconds) = self.warmup.take() {
            figures.set("warmup_seconds", seconds);
        }
        let mut findings = Vec::new();
        if !table.closed {
            let words = "the table is cut: its last line is missing";
            findings.push(Finding::new(Kind::Text, words));
        }
        let completed = figures.get("completed");
        let (settings, command) = self.load(table, completed, &mut findings);
        findings.extend(self.broken_claims(&settings));
        let model = settings.get("model").and_then(Value::as_str);
        let model = model.map(|path| last_part(path).to_owned());
        let name = match &self.cell {
            Some((_, client)) => client.clone(),
            None => load_name(&settings, completed),
        };
        let run = Run {
            id: identifier(&[self.file, &line.to_string(), &text]),
            subject: self.subject(model),
            load: LoadFacts {
                name,
                command,
                settings,
            },
            repeat: 1,
            origin: self.origin(line, table.layout()),
            outcome: Outcome::Finished,
            figures,
            machine: None,
            findings,
        };
        ImportedRun {
            run,
            text,
            records: Vec::new(),
        }
    }

    /// The options behind a table: those of the echo or command before it, if they agree with it.
    fn load(
        &mut self,
        table: &Table,
        completed: Option<f64>,
        findings: &mut Vec<Finding>,
    ) -> (BTreeMap<String, Value>, Option<String>) {
        let printed = printed_settings(table);
        let echoed = self.echo.take();
        let commanded = self.client.as_ref().map(settings::from_flags);
        let mut agreed = BTreeMap::new();
        let mut command = None;
        if let Some(echo) = echoed {
            agreed = echo;
            command = self.client.as_ref().map(|client| client.text.clone());
        } else if let Some(options) = commanded {
            let count = options.get("num_prompts").and_then(number_of);
            let count = count.unwrap_or(1000.0).to_string();
            let disagrees = disagreement(&options, &printed).or_else(|| {
                let had = completed?.to_string();
                (had != count).then(|| format!("asks for {count} requests, the table has {had}"))
            });
            match disagrees {
                None => {
                    agreed = options;
                    command = self.client.as_ref().map(|client| client.text.clone());
                }
                Some(how) => {
                    let text =
                        format!("the command before this table {how}: it is not its command");
                    findings.push(Finding::new(Kind::Text, text));
                }
            }
        }
        agreed.extend(printed);
        (agreed, command)
    }

    /// What prose said about options and the options say otherwise.
    fn broken_claims(&self, settings: &BTreeMap<String, Value>) -> Vec<Finding> {
        let mut findings = Vec::new();
        for claim in &self.claims {
            let claimed = settings::from_flags(claim);
            if claimed.get("dataset_name") != settings.get("dataset_name") {
                continue;
            }
            for (name, value) in claimed {
                if let Some(used) = settings.get(&name).filter(|used| **used != value) {
                    let text = format!("the text says {name} {value}, the run used {used}");
                    findings.push(Finding::new(Kind::Text, text));
                }
            }
        }
        findings
    }
}

/// Options that the table itself prints.
fn printed_settings(table: &Table) -> BTreeMap<String, Value> {
    let mut settings = BTreeMap::new();
    if let Some(backend) = table.word("Backend") {
        settings.insert("backend".to_owned(), Value::from(backend));
    }
    let rate = table.word("Traffic request rate");
    let rate = rate.or_else(|| table.word("Target request rate (req/s)"));
    if let Some(rate) = rate.and_then(python::literal) {
        settings.insert("request_rate".to_owned(), rate);
    }
    if let Some(limit) = table
        .word("Max request concurrency")
        .and_then(python::literal)
    {
        settings.insert("max_concurrency".to_owned(), limit);
    }
    settings
}

/// How options contradict what a table printed.
fn disagreement(
    options: &BTreeMap<String, Value>,
    printed: &BTreeMap<String, Value>,
) -> Option<String> {
    let word = |from: &BTreeMap<String, Value>, name: &str, otherwise: &str| {
        let number = from.get(name).and_then(number_of);
        number.map_or_else(|| otherwise.to_owned(), |number| number.to_string())
    };
    let differs = |(name, what, otherwise): (&str, &str, &str)| {
        let (asked, had) = (
            word(options, name, otherwise),
            word(printed, name, otherwise),
        );
        (asked != had).then(|| format!("asks for {what} {asked}, the table has {had}"))
    };
    differs(("request_rate", "rate", "inf"))
        .or_else(|| differs(("max_concurrency", "concurrency", "none")))
}

/// Flags inside code quotes of a sentence.
fn claims(sentence: &str) -> Vec<CommandLine> {
    let quoted = sentence.split('`').skip(1).step_by(2);
    let flags = quoted
        .filter(|code| code.starts_with("--"))
        .map(CommandLine::flags_only);
    flags.collect()
}

/// A name and a version in two columns.
fn package(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split_whitespace();
    let (name, version) = (words.next()?, words.next()?);
    let apart = line.contains("  ") && words.next().is_none();
    let named = name.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter));
    let numbered = version.starts_with(|letter: char| letter.is_ascii_digit())
        && version.contains('.')
        && version
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || ".+-_".contains(letter));
    (apart && named && numbered).then_some((name, version))
}

/// Words without the marks of emphasis and the colon at their end.
fn plain(text: &str) -> String {
    let text = text.trim().trim_matches(['*', '_', '`']);
    text.trim_end_matches([':', '：']).trim().to_owned()
}

pub(super) fn last_part(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    path.rsplit('/').next().unwrap_or(path)
}
