//! Whether anybody else uses the machine: a measurement beside other work says nothing.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Context as _;

/// Cores that other processes may use in a clean run.
pub(crate) const QUIET: f64 = 0.1;
/// The kernel counts processor time in hundredths of a second.
const TICKS: f64 = 100.0;

/// Waits until other processes are quiet, for at most `patience` seconds; says what it sees.
pub(crate) fn wait(patience: u64) -> anyhow::Result<()> {
    let end = Instant::now() + Duration::from_secs(patience);
    let mut told = false;
    loop {
        let watch = Watch::start(None)?;
        pause(Duration::from_secs(1));
        let others = watch.others()?;
        if others < QUIET {
            println!("  idle: other processes use {others:.2} cores");
            return Ok(());
        }
        if Instant::now() >= end {
            println!("  NOT idle: other processes use {others:.2} cores; measuring all the same");
            return Ok(());
        }
        if !told {
            println!("  waiting: other processes use {others:.2} cores");
            told = true;
        }
    }
}

/// Lets time pass where there is nothing to wait for but time itself.
#[expect(
    clippy::disallowed_methods,
    reason = "the load of a machine and the start of a foreign process can only be polled"
)]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Counts what processes other than this one and its server use while it lives.
pub(crate) struct Watch {
    server: Option<u32>,
    since: Instant,
    busy: f64,
    own: f64,
}

impl Watch {
    /// Begins to count. `server` is a running child that is being measured.
    pub(crate) fn start(server: Option<u32>) -> anyhow::Result<Self> {
        Ok(Self {
            server,
            since: Instant::now(),
            busy: busy()?,
            own: own(server)?,
        })
    }

    /// Cores that others used on average since the start.
    pub(crate) fn others(&self) -> anyhow::Result<f64> {
        let seconds = self.since.elapsed().as_secs_f64();
        let busy = busy()? - self.busy;
        let own = own(self.server)? - self.own;
        Ok(((busy - own) / seconds).max(0.0))
    }
}

/// Seconds of processor time that anybody used or the host took away since the machine started.
fn busy() -> anyhow::Result<f64> {
    let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    busy_seconds(&text).context("/proc/stat is not as expected")
}

fn busy_seconds(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<f64> = line
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    let [user, nice, system, _idle, _waiting, irq, softirq, steal, ..] = ticks.as_slice() else {
        return None;
    };
    Some((user + nice + system + irq + softirq + steal) / TICKS)
}

/// Seconds of processor time of this process, its finished children and the server.
fn own(server: Option<u32>) -> anyhow::Result<f64> {
    let read = |name: &str| {
        let path = format!("/proc/{name}/stat");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        process_seconds(&text).with_context(|| format!("{path} is not as expected"))
    };
    let (used, by_children) = read("self")?;
    let by_server = match server {
        Some(id) => read(&id.to_string())?.0,
        None => 0.0,
    };
    Ok(used + by_children + by_server)
}

/// Processor time of a process, and of its children that have ended.
fn process_seconds(stat: &str) -> Option<(f64, f64)> {
    // the name in parentheses may hold anything
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    let used = ticks(11)? + ticks(12)?;
    let by_children = ticks(13)? + ticks(14)?;
    Some((used / TICKS, by_children / TICKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_counts_everything_but_idling() {
        let stat = "cpu  100 50 30 9999 77 5 10 5 3 0\ncpu0 1 2\n";
        assert_eq!(busy_seconds(stat), Some(2.0));
        assert_eq!(busy_seconds("cpu 1 2\n"), None);
    }

    #[test]
    fn a_process_with_an_odd_name_is_read() {
        let stat = "7 (a b) c) S 1 1 1 0 -1 4194304 9 9 9 9 150 50 20 30 20 0 3";
        assert_eq!(process_seconds(stat), Some((2.0, 0.5)));
    }

    #[test]
    fn work_of_this_process_is_not_others_work() {
        let watch = Watch::start(None).unwrap();
        let (before, mut x) = (own(None).unwrap(), 1u64);
        while own(None).unwrap() < before + 0.05 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        let busy_now = busy().unwrap() - watch.busy;
        assert!(watch.others().unwrap() * watch.since.elapsed().as_secs_f64() < busy_now);
    }
}
