//! Processes that outlive the one that started them.
//!
//! A child may leave its process group, but it keeps the environment it was born with: everything
//! that descends from a process of ours carries its mark.

use std::fs;
use std::time::{Duration, Instant};

use crate::os::{Signal, signal_process};

/// The variable that holds the mark.
pub(crate) const MARK: &str = "PEREGRINE_LAB_MARK";
/// How long the kernel may take to remove a killed process.
const PATIENCE: Duration = Duration::from_secs(5);

/// A process with our mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leftover {
    /// Its number, and that of its group.
    pub(crate) process: u32,
    pub(crate) group: u32,
    /// What it runs.
    pub(crate) command: String,
}

/// Kills every process whose mark begins like this; what was killed.
pub(crate) fn sweep(mark: &str) -> Vec<Leftover> {
    let found = marked(mark);
    let end = Instant::now() + PATIENCE;
    let mut living = found.clone();
    while !living.is_empty() && Instant::now() < end {
        for leftover in &living {
            signal_process(leftover.process, Signal::Kill).ok();
        }
        std::thread::park_timeout(Duration::from_millis(5));
        living = marked(mark);
    }
    found
}

/// Living processes whose mark begins like this.
pub(crate) fn marked(mark: &str) -> Vec<Leftover> {
    let wanted = format!("{MARK}={mark}");
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let own = std::process::id();
    let found = processes
        .filter(|process| *process != own)
        .filter_map(|process| {
            let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
            let mut variables = environment.split(|byte| *byte == 0);
            variables.find(|variable| variable.starts_with(wanted.as_bytes()))?;
            let command = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            let words = command
                .split(|byte| *byte == 0)
                .map(String::from_utf8_lossy);
            let command = words.collect::<Vec<_>>().join(" ").trim().to_owned();
            let group = group_of(process)?;
            Some(Leftover {
                process,
                group,
                command,
            })
        });
    found.collect()
}

/// None when the process is gone.
fn group_of(process: u32) -> Option<u32> {
    let facts = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // behind the command, which may hold anything: its state, its parent and its group
    let (_, rest) = facts.rsplit_once(')')?;
    rest.split_whitespace().nth(2)?.parse().ok()
}
