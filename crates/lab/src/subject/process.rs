//! A process of ours: started in a group of its own, watched, stopped, and nothing of it left.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::leftovers::{self, Leftover, MARK};
use super::log::Log;
use crate::os::{Signal, die_with_parent, signal_group};

/// How often a process is looked at that gives no sign of itself.
const GLANCE: Duration = Duration::from_millis(10);
/// How long streams may stay open after everybody who could write is gone.
const DRAIN: Duration = Duration::from_secs(2);

/// What to start.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    /// The program and its arguments.
    pub(crate) words: Vec<String>,
    /// Variables on top of our own environment.
    pub(crate) environment: BTreeMap<String, String>,
    /// The working folder.
    pub(crate) folder: Option<PathBuf>,
    /// What everything that descends from it is known by.
    pub(crate) mark: String,
}

/// A running process; dropping it kills it and everything it started.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    mark: String,
    /// Standard output.
    pub(crate) out: Log,
    /// Standard error; the same log when both go to one.
    pub(crate) err: Log,
    ended: Option<ExitStatus>,
}

/// How a process was stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stopped {
    /// Whether it ended by itself when asked.
    pub(crate) gracefully: bool,
    /// Its exit code; a signal counts from 128.
    pub(crate) code: Option<i32>,
    /// What it left running.
    pub(crate) left_behind: Vec<Leftover>,
    /// Bytes of its logs that were not kept.
    pub(crate) log_cut: u64,
}

impl Process {
    /// Starts it.
    pub(crate) fn start(launch: &Launch, out: Log, err: Log) -> io::Result<Self> {
        let (program, arguments) = launch
            .words
            .split_first()
            .ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .envs(&launch.environment)
            .env(MARK, &launch.mark)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        if let Some(folder) = &launch.folder {
            command.current_dir(folder);
        }
        die_with_parent(&mut command);
        let mut child = command.spawn()?;
        if let Some(stream) = child.stdout.take() {
            out.follow(stream);
        }
        if let Some(stream) = child.stderr.take() {
            err.follow(stream);
        }
        Ok(Self {
            child,
            mark: launch.mark.clone(),
            out,
            err,
            ended: None,
        })
    }

    /// Its number, which is also that of its group.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The code it ended with, if it has.
    pub(crate) fn exited(&mut self) -> Option<i32> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended.map(code)
    }

    /// Waits a moment, or until it prints something.
    pub(crate) fn glance(&self) {
        self.out.wait(GLANCE);
    }

    /// Asks it to stop, waits as long as it may take, and makes an end of what is left.
    pub(crate) fn stop(mut self, signal: Signal, grace: Duration) -> Stopped {
        let mut gracefully = self.exited().is_some();
        if !gracefully {
            signal_group(self.id(), signal).ok();
            gracefully = self.wait(grace).is_some();
        }
        self.finish(gracefully)
    }

    /// Waits until it ends, at most this long.
    pub(crate) fn wait(&mut self, longest: Duration) -> Option<i32> {
        let end = Instant::now() + longest;
        loop {
            let code = self.exited();
            if code.is_some() || Instant::now() >= end {
                return code;
            }
            self.glance();
        }
    }

    /// Waits until everything that was printed has been read.
    pub(crate) fn drain(&self) {
        let end = Instant::now() + DRAIN;
        while !(self.out.ended() && self.err.ended()) && Instant::now() < end {
            self.glance();
        }
    }

    fn finish(&mut self, gracefully: bool) -> Stopped {
        signal_group(self.id(), Signal::Kill).ok();
        self.wait(Duration::from_secs(10));
        let mut left_behind = leftovers::sweep(&self.mark);
        // Its group was killed, though some of it may have been seen dying: only what outlives that was left behind.
        left_behind.retain(|leftover| {
            leftover.group != self.id() || leftovers::marked(&self.mark).contains(leftover)
        });
        self.drain();
        Stopped {
            gracefully,
            code: self.exited(),
            left_behind,
            log_cut: self.out.close() + self.err.close(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.finish(false);
    }
}

fn code(status: ExitStatus) -> i32 {
    let by_signal = status.signal().map(|signal| 128 + signal);
    status.code().or(by_signal).unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::leftovers::marked;
    use crate::subject::log::Stamps;

    fn start(script: &str, mark: &str) -> (tempfile::TempDir, Process) {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::create(
            &folder.path().join("log"),
            1 << 20,
            Some("ready"),
            Stamps::None,
        )
        .unwrap();
        let launch = Launch {
            words: ["sh", "-c", script].map(str::to_owned).to_vec(),
            environment: BTreeMap::from([("GREETING".to_owned(), "hello".to_owned())]),
            folder: Some(folder.path().to_owned()),
            mark: format!("{mark}-{}", std::process::id()),
        };
        let process = Process::start(&launch, log.clone(), log).unwrap();
        (folder, process)
    }

    fn until_ready(process: &Process) {
        while !process.out.has_awaited() {
            process.out.wait(Duration::from_secs(5));
        }
    }

    #[test]
    fn a_process_has_its_environment_and_ends_with_its_code() {
        let (_folder, mut process) = start("echo $GREETING; echo ready >&2; exit 7", "code");
        until_ready(&process);
        assert_eq!(process.wait(Duration::from_secs(10)), Some(7));
        let log = process.out.clone();
        let stopped = process.stop(Signal::Terminate, Duration::ZERO);
        assert_eq!((stopped.gracefully, stopped.code), (true, Some(7)));
        assert!(log.last_lines(9).contains(&"hello".to_owned()));
    }

    #[test]
    fn one_that_will_not_stop_is_killed() {
        let (_folder, process) = start(
            "trap '' TERM; echo ready; while :; do sleep 0.1; done",
            "deaf",
        );
        until_ready(&process);
        let stopped = process.stop(Signal::Terminate, Duration::from_millis(100));
        assert_eq!((stopped.gracefully, stopped.code), (false, Some(137)));
        assert_eq!(stopped.left_behind, []);
    }

    #[test]
    fn a_child_that_leaves_the_group_is_found_and_killed() {
        let script = "setsid sh -c 'sleep 300' & trap 'exit 0' TERM; echo ready; wait";
        let (_folder, process) = start(script, "stray");
        until_ready(&process);
        let mark = process.mark.clone();
        // once it is `sleep` itself, it has left the group; before, other commands only mention it
        while marked(&mark)
            .iter()
            .all(|one| !one.command.starts_with("sleep"))
        {
            process.glance();
        }
        let stopped = process.stop(Signal::Terminate, Duration::from_secs(5));
        assert!(stopped.gracefully);
        assert!(
            stopped
                .left_behind
                .iter()
                .any(|one| one.command.contains("sleep 300"))
        );
        assert_eq!(marked(&mark), []);
    }

    #[test]
    fn dropping_leaves_nothing() {
        let (_folder, process) = start("sleep 300 & echo ready; sleep 300", "dropped");
        until_ready(&process);
        let mark = process.mark.clone();
        drop(process);
        assert_eq!(marked(&mark), []);
    }
}
