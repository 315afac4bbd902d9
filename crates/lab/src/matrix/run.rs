//! Running the cells of a session.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use super::attempt::{Attempt, Report, Scratch, after_stop};
use super::plan::{Plan, Servers};
use super::tell::{Event, Teller};
use super::{Cell, Session};
use crate::Tokenizers;
use crate::diff;
use crate::driver::{self, LoadContext, LoadFailure, Outputs};
use crate::figures::Figures;
use crate::interrupt::Interrupt;
use crate::machine::{AcceleratorWatch, Busy, Machine};
use crate::moment;
use crate::run::{ServerUse, SubjectFacts};
use crate::store::{Store, StoreError, disk};
use crate::subject::{HOST, Places, Server, StartFailure, Stopped, free_port, sweep};

/// A session that is being run.
pub(crate) struct Matrix<'a> {
    /// What is run.
    pub(crate) plan: &'a Plan,
    /// Where it stands.
    pub(crate) session: &'a Session,
    /// Where runs go.
    pub(crate) store: &'a mut Store,
    /// Our own binary.
    pub(crate) program: PathBuf,
    /// Whether we were asked to stop.
    pub(crate) interrupt: &'a Interrupt,
    /// Who is told.
    pub(crate) teller: Teller<'a>,
    /// Where it runs.
    pub(crate) machine: Machine,
    /// What is known of subjects from their own word, by their place in the plan.
    pub(crate) met: BTreeMap<usize, SubjectFacts>,
    /// How tokenizers are had.
    pub(crate) tokenizers: Tokenizers<'a>,
}

/// How a session went.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Cells with figures.
    pub(crate) finished: usize,
    /// Cells without.
    pub(crate) failed: usize,
    /// Whether it was interrupted.
    pub(crate) interrupted: bool,
}

impl Matrix<'_> {
    /// Runs the cells that have no run yet.
    pub(crate) fn run(&mut self, cells: &[Cell]) -> Result<Summary, StoreError> {
        // what an earlier, killed session may have left
        sweep(&self.session.own_mark());
        self.remove_containers(cells);
        let mut summary = Summary::default();
        let mut servers: BTreeMap<usize, Server> = BTreeMap::new();
        for (at, cell) in cells.iter().enumerate() {
            let next = cells.get(at + 1);
            let done = self.run_cell(cell, next, &mut servers)?;
            match done {
                Some(true) => summary.finished += 1,
                Some(false) => summary.failed += 1,
                None => {
                    summary.interrupted = true;
                    break;
                }
            }
        }
        for (subject, server) in servers {
            self.stop(&self.plan.subjects[subject].name.clone(), server);
        }
        sweep(&self.session.own_mark());
        if !summary.interrupted {
            let file = self
                .session
                .folder(self.store)
                .join("log.txt")
                .display()
                .to_string();
            self.teller.tell(Event::Done { file: &file });
        }
        Ok(summary)
    }

    /// Runs one cell and stores its run: whether it has figures, or nothing when interrupted.
    fn run_cell(
        &mut self,
        cell: &Cell,
        next: Option<&Cell>,
        servers: &mut BTreeMap<usize, Server>,
    ) -> Result<Option<bool>, StoreError> {
        let plan = self.plan;
        let (subject, load) = (&plan.subjects[cell.subject], &plan.loads[cell.load]);
        self.teller.tell(Event::Cell {
            server: &subject.name,
            client: &load.name,
        });
        let attempt = self.attempt(cell)?;
        let mut server = match servers.remove(&cell.subject) {
            Some(server) => {
                self.teller.tell(Event::Kept {
                    server: &subject.name,
                });
                Ok(server)
            }
            None => self.start(&attempt),
        };
        if let Ok(server) = &server {
            self.meet(cell.subject, &server.facts);
        }
        let mut report = match &mut server {
            Ok(server) => self.load(&attempt, server),
            Err(failure) => self.no_server(&attempt, failure),
        };
        if self.interrupt.asked() {
            if let Ok(server) = server {
                self.stop(&subject.name, server);
            }
            return Ok(None);
        }
        if let Err(failure) = &report.ending {
            self.teller.tell(Event::Failed {
                reason: &failure.reason,
                last_lines: &failure.last_lines,
            });
        }
        if let Ok(server) = server {
            let keep = report.ending.is_ok() && self.keeps(cell, next);
            if keep {
                servers.insert(cell.subject, server);
            } else {
                let stopped = self.stop(&subject.name, server);
                report.findings.extend(after_stop(&stopped));
                report.ended_by_itself = Some(stopped.gracefully);
                let log = attempt.scratch.path().join("server.log");
                if let Ok(whole) = fs::read_to_string(log) {
                    report.server_log = whole;
                }
            }
        }
        let finished = report.ending.is_ok();
        let noticed = report.store(&attempt, (self.session, load), &self.machine, self.store)?;
        self.notice(cell, &noticed)?;
        Ok(Some(finished))
    }

    fn remove_containers(&self, cells: &[Cell]) {
        for (place, subject) in self.plan.subjects.iter().enumerate() {
            let Some(container) = &subject.container else {
                continue;
            };
            let of_subject = cells.iter().filter(|cell| cell.subject == place);
            let marks: Vec<String> = of_subject
                .map(|cell| self.session.mark(cell, "server"))
                .collect();
            container.remove(&marks);
        }
    }

    /// Whether the server of a cell goes on to the next one.
    fn keeps(&self, cell: &Cell, next: Option<&Cell>) -> bool {
        match self.plan.servers {
            Servers::Fresh => false,
            Servers::PerTurn => next.is_some_and(|next| next.subject == cell.subject),
            Servers::Kept => true,
        }
    }

    fn attempt(&self, cell: &Cell) -> Result<Attempt, StoreError> {
        let path = self
            .session
            .folder(self.store)
            .join(format!("cell-{}", cell.place));
        let scratch = Scratch::create(path.clone()).map_err(|source| disk(&path, source))?;
        let subject = &self.plan.subjects[cell.subject];
        let values = vec![
            ("self", self.program.display().to_string()),
            ("model", subject.model.clone().unwrap_or_default()),
            ("host", HOST.to_owned()),
            ("repeat", cell.repeat.to_string()),
            ("scratch", scratch.path().display().to_string()),
        ];
        Ok(Attempt {
            cell: *cell,
            started: moment::now(),
            scratch,
            places: Places { values },
        })
    }

    fn start(&mut self, attempt: &Attempt) -> Result<Server, StartFailure> {
        let subject = &self.plan.subjects[attempt.cell.subject];
        let port = free_port().map_err(|error| StartFailure {
            reason: format!("no free port: {error}"),
            last_lines: Vec::new(),
            stopped: None,
        })?;
        let places = with_port(&attempt.places, port);
        let mark = self.session.mark(&attempt.cell, "server");
        let mut command = driver::line(&subject.launch(&places, &mark).words);
        for (name, value) in subject.environment.iter().rev() {
            command = format!("{name}={value} {command}");
        }
        self.teller.tell(Event::Start {
            server: &subject.name,
            command: &command,
        });
        let log = if self.plan.servers == Servers::Fresh {
            attempt.scratch.path().join("server.log")
        } else {
            let name = format!("server-{}.log", attempt.cell.place);
            self.session.folder(self.store).join(name)
        };
        let server = Server::start(subject, (port, &places), &log, &mark, self.interrupt)?;
        self.teller.tell(Event::Ready {
            server: &subject.name,
            sign: &subject.ready.sign(),
        });
        Ok(server)
    }

    fn stop(&mut self, name: &str, server: Server) -> Stopped {
        self.teller.tell(Event::Stop { server: name });
        let stopped = server.stop();
        self.teller.tell(Event::Stopped {
            server: name,
            gracefully: stopped.gracefully,
        });
        stopped
    }

    /// Puts the load of a cell on its server.
    fn load(&mut self, attempt: &Attempt, server: &mut Server) -> Report {
        let (subject, load) = (
            &self.plan.subjects[attempt.cell.subject],
            &self.plan.loads[attempt.cell.load],
        );
        let outputs = Outputs::within(attempt.scratch.path());
        let mut places = with_port(&attempt.places, server.port);
        places.values.push(("url", server.url()));
        let words = driver::words(&load.driver, &places, &outputs);
        let command = driver::line(&words);
        let use_of_server = if server.served == 0 {
            ServerUse::Fresh
        } else {
            ServerUse::Kept
        };
        let flushed = server.flush();
        self.teller.tell(Event::Load {
            server: &subject.name,
            client: &load.name,
            command: &command,
        });
        let mark = self.session.mark(&attempt.cell, "client");
        let gpus = AcceleratorWatch::start();
        let busy = Busy::start(server.id());
        let began = Instant::now();
        let context = LoadContext {
            outputs: &outputs,
            limit: load.time_limit.unwrap_or(self.plan.time_limit),
            mark: &mark,
            interrupt: self.interrupt,
        };
        let ending = driver::put(&words, server, &context);
        server.served += 1;
        let mut findings = Vec::new();
        findings.extend(busy.and_then(|busy| busy.finding(self.machine.cores)));
        let mut figures = match &ending {
            Ok(result) => result.figures.clone(),
            Err(_) => Figures::default(),
        };
        if let Ok(result) = &ending {
            let names = driver::tokenizer_names(&words, &server.facts);
            if let Some(count) = driver::retokenised(result, &names, self.tokenizers) {
                figures.set(driver::RETOKENISED, count as f64);
            }
        }
        if let Some(gpus) = gpus {
            let course = gpus.finish();
            findings.extend(course.finding());
            course.add_to(&mut figures);
            fs::write(
                attempt.scratch.path().join(crate::machine::ACCELERATORS),
                course.table(),
            )
            .ok();
        }
        self.tell_output(&load.name, &outputs, ending.is_ok());
        findings.extend(diff::without_effect(&server.facts));
        let log = server.log();
        let on_log = |moment: Instant| moment.duration_since(log.started()).as_secs_f64();
        let lines = log.lines_between(on_log(began), f64::INFINITY);
        let lines = lines
            .iter()
            .map(|line| format!("[{:9.3}] {}", line.after, line.text));
        let moment = ending.as_ref().ok().and_then(|result| result.moment);
        Report {
            subject: server.facts.clone(),
            command,
            ready_after: server.ready_after,
            ready_by: subject.ready.sign(),
            ended_by_itself: None,
            server: use_of_server,
            flushed,
            ending,
            figures,
            findings,
            server_log: lines.collect::<Vec<_>>().join("\n"),
            moment: moment.map(|(ours, theirs)| (on_log(ours), theirs)),
        }
    }

    fn tell_output(&mut self, client: &str, outputs: &Outputs, good: bool) {
        let read = |path: &PathBuf| {
            String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
        };
        let (out, err) = (read(&outputs.out), read(&outputs.err));
        self.teller.tell(Event::Output {
            out: &out,
            err: &err,
        });
        if good {
            self.teller.tell(Event::Ended { client, code: 0 });
        }
    }

    /// The report of a cell whose server could not be used.
    fn no_server(&self, attempt: &Attempt, failure: &StartFailure) -> Report {
        let subject = &self.plan.subjects[attempt.cell.subject];
        let stopped = failure.stopped.as_ref();
        let ended_by_itself = stopped.filter(|stopped| stopped.gracefully);
        let log = attempt.scratch.path().join("server.log");
        Report {
            subject: subject.facts(&attempt.places),
            command: String::new(),
            ready_after: 0.0,
            ready_by: String::new(),
            ended_by_itself: stopped.map(|stopped| stopped.gracefully),
            server: ServerUse::Fresh,
            flushed: false,
            ending: Err(LoadFailure {
                reason: failure.reason.clone(),
                exit_code: ended_by_itself.and_then(|stopped| stopped.code),
                last_lines: failure.last_lines.clone(),
            }),
            figures: Figures::default(),
            findings: stopped.map(after_stop).unwrap_or_default(),
            server_log: fs::read_to_string(log).unwrap_or_default(),
            moment: None,
        }
    }
}

fn with_port(places: &Places, port: u16) -> Places {
    let mut places = places.clone();
    places.values.push(("port", port.to_string()));
    places
}
