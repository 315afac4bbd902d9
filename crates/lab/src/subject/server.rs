//! A subject that runs.

use std::path::Path;
use std::time::{Duration, Instant};

use bench::client::{Control, Reply, Url};

use super::{HOST, Log, Places, Process, Stamps, Stopped, Subject};
use crate::interrupt::Interrupt;
use crate::os::exit_code;
use crate::run::SubjectFacts;

/// Lines of a log that are quoted.
const QUOTED: usize = 20;
/// How long a server may take to answer a question.
const ANSWER: Duration = Duration::from_secs(10);
/// How long it may take to say whether it is ready.
const GLIMPSE: Duration = Duration::from_secs(2);

/// A server that can be used.
#[derive(Debug)]
pub(crate) struct Server {
    process: Process,
    subject: Subject,
    mark: String,
    control: Control,
    /// Where it listens.
    pub(crate) port: u16,
    /// Seconds until it could be used.
    pub(crate) ready_after: f64,
    /// What is known of it.
    pub(crate) facts: SubjectFacts,
    /// Runs it has served.
    pub(crate) served: usize,
}

/// A server that could not be used.
#[derive(Debug)]
pub(crate) struct StartFailure {
    /// Why, in a sentence.
    pub(crate) reason: String,
    /// The last lines of its log.
    pub(crate) last_lines: Vec<String>,
    /// How it ended, when it was started at all.
    pub(crate) stopped: Option<Stopped>,
}

impl Server {
    /// Starts a subject on this port and waits until it can be used.
    pub(crate) fn start(
        subject: &Subject,
        (port, places): (u16, &Places),
        log: &Path,
        mark: &str,
        interrupt: &Interrupt,
    ) -> Result<Self, StartFailure> {
        let launch = subject.launch(places, mark);
        let cannot = |reason: String| StartFailure {
            reason,
            last_lines: Vec::new(),
            stopped: None,
        };
        let base = Url::parse(&format!("http://{HOST}:{port}"))
            .map_err(|error| cannot(error.to_string()))?;
        let log = Log::create(
            log,
            subject.log_limit,
            subject.ready.line.as_deref(),
            Stamps::Seconds,
        )
        .map_err(|error| cannot(format!("its log cannot be written: {error}")))?;
        let process = Process::start(&launch, log.clone(), log).map_err(|error| {
            let program = launch.words.first().map_or("", String::as_str);
            cannot(format!("cannot start {program}: {error}"))
        })?;
        let mut server = Self {
            process,
            subject: subject.clone(),
            mark: mark.to_owned(),
            control: Control::new(base, Vec::new()),
            port,
            ready_after: 0.0,
            facts: subject.facts(places),
            served: 0,
        };
        match server.until_ready(interrupt) {
            Ok(()) => {
                server.learn();
                Ok(server)
            }
            Err(reason) => {
                let last_lines = server.last_lines();
                Err(StartFailure {
                    reason,
                    last_lines,
                    stopped: Some(server.stop()),
                })
            }
        }
    }

    fn until_ready(&mut self, interrupt: &Interrupt) -> Result<(), String> {
        let started = Instant::now();
        let within = self.subject.ready.within;
        loop {
            if let Some(code) = self.process.exited() {
                return Err(format!(
                    "the server ended with code {} before it was ready",
                    exit_code(code)
                ));
            }
            if interrupt.asked() {
                return Err("interrupted".to_owned());
            }
            if self.process.out.has_awaited() && self.answers() {
                self.ready_after = started.elapsed().as_secs_f64();
                return Ok(());
            }
            if started.elapsed() >= within {
                let seconds = within.as_secs_f64();
                return Err(format!("the server was not ready within {seconds} s"));
            }
            self.process.glance();
        }
    }

    fn answers(&self) -> bool {
        match &self.subject.ready.path {
            None => true,
            Some(path) => self
                .control
                .get(path, GLIMPSE)
                .is_ok_and(|reply| Reply::is_ok(&reply)),
        }
    }

    /// Asks the server about itself; one that does not say is known by its command line alone.
    fn learn(&mut self) {
        let Some(path) = &self.subject.info_path else {
            return;
        };
        let info = self.control.get(path, ANSWER).ok().filter(Reply::is_ok);
        let info = info.and_then(|reply| reply.json());
        let version = ["version", "build_info"].into_iter().find_map(|name| {
            let version = info.as_ref()?.get(name)?.as_str()?;
            Some(version.to_owned())
        });
        if let Some(version) = version {
            self.facts.versions.insert("server".to_owned(), version);
        }
        self.facts.info = info;
    }

    /// Empties its prefix cache, when the plan says so; whether that was done.
    pub(crate) fn flush(&self) -> bool {
        let path = self.subject.flush_path.as_ref();
        path.is_some_and(|path| {
            self.control
                .post(path, None, ANSWER)
                .is_ok_and(|reply| Reply::is_ok(&reply))
        })
    }

    /// Where clients find it.
    pub(crate) fn url(&self) -> String {
        format!("http://{HOST}:{}", self.port)
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// The code it ended with, if it has.
    pub(crate) fn exited(&mut self) -> Option<i32> {
        self.process.exited()
    }

    /// Its log.
    pub(crate) fn log(&self) -> &Log {
        &self.process.out
    }

    /// The last lines of its log.
    pub(crate) fn last_lines(&mut self) -> Vec<String> {
        if self.process.exited().is_some() {
            self.process.drain();
        }
        self.process.out.last_lines(QUOTED)
    }

    /// Stops it, and the container it is in.
    pub(crate) fn stop(self) -> Stopped {
        let stop = self.subject.stop;
        if let Some(container) = &self.subject.container {
            container.stop(&self.mark, stop);
        }
        self.process.stop(stop.signal, stop.grace)
    }
}
