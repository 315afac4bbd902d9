//! A client's process: run to its end, its processor time and memory watched.

use std::fs;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};

/// The kernel counts processor time in ticks of a hundredth of a second.
const TICKS: f64 = 100.0;

/// What a process used and said.
pub(super) struct Ran {
    /// Processor seconds, of all its threads.
    pub(super) cpu: f64,
    /// The most memory resident, MB.
    pub(super) memory: f64,
    /// What it printed.
    pub(super) output: String,
}

/// Runs a command that prints no more than a pipe holds, or whose output goes elsewhere.
pub(super) fn run(command: &mut Command) -> anyhow::Result<Ran> {
    let before = children_cpu()?;
    let mut child = command.stderr(Stdio::null()).spawn()?;
    let mut memory = 0;
    let status = loop {
        memory = memory.max(peak_memory(child.id()).unwrap_or(0));
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    };
    let mut output = String::new();
    if let Some(printed) = &mut child.stdout {
        printed.read_to_string(&mut output)?;
    }
    ensure!(status.success(), "{command:?} failed");
    Ok(Ran {
        cpu: children_cpu()? - before,
        memory: memory as f64 / 1024.0,
        output,
    })
}

/// Processor seconds of all children that have ended.
fn children_cpu() -> anyhow::Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |place: usize| {
        fields
            .get(place)
            .and_then(|field| field.parse::<f64>().ok())
    };
    let (user, system) = (ticks(13), ticks(14));
    Ok((user.context("no times in /proc/self/stat")? + system.unwrap_or(0.0)) / TICKS)
}

/// The most memory a process has had resident, in kibibytes.
fn peak_memory(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
