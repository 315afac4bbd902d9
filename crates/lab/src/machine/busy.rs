//! How much of the machine others used while a run lasted.

use std::fs;
use std::time::Instant;

use crate::finding::{Finding, Kind};

/// The kernel counts processor time in hundredths of a second.
const TICKS: f64 = 100.0;
/// Cores that others may use before it is worth a word.
const QUIET: f64 = 0.25;

/// Counts what others use from its creation on.
#[derive(Debug, Clone)]
pub(crate) struct Busy {
    since: Instant,
    group: u32,
    all: f64,
    ours: f64,
}

impl Busy {
    /// Begins to count; processes of `group` are ours, and so are our own and our children.
    pub(crate) fn start(group: u32) -> Option<Self> {
        Some(Self {
            since: Instant::now(),
            group,
            all: all()?,
            ours: ours(group)?,
        })
    }

    /// Cores that others used on average since then.
    pub(crate) fn others(&self) -> Option<f64> {
        let seconds = self.since.elapsed().as_secs_f64().max(0.01);
        let (all, ours) = (all()? - self.all, ours(self.group)? - self.ours);
        Some(((all - ours) / seconds).max(0.0))
    }

    /// Says so when others used much.
    pub(crate) fn finding(&self, cores: usize) -> Option<Finding> {
        let others = self.others().filter(|others| *others > QUIET)?;
        let text = format!("other processes used {others:.1} of {cores} cores during the run");
        Some(Finding::new(Kind::BusyMachine, text))
    }
}

fn all() -> Option<f64> {
    busy_seconds(&fs::read_to_string("/proc/stat").ok()?)
}

fn busy_seconds(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Option<Vec<f64>> = line
        .split_whitespace()
        .map(|word| word.parse().ok())
        .collect();
    let ticks = ticks?;
    let [
        user,
        nice,
        system,
        _idle,
        _waiting,
        interrupts,
        soft,
        stolen,
        ..,
    ] = ticks.as_slice()
    else {
        return None;
    };
    Some((user + nice + system + interrupts + soft + stolen) / TICKS)
}

/// Seconds of our own process, its ended children, and everything alive in the group.
fn ours(group: u32) -> Option<f64> {
    let own = Usage::read(&fs::read_to_string("/proc/self/stat").ok()?)?;
    let entries = fs::read_dir("/proc").ok()?.flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let members = processes.filter_map(|process| {
        let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        Usage::read(&text).filter(|usage| usage.group == group)
    });
    Some(own.seconds + members.map(|usage| usage.seconds).sum::<f64>())
}

struct Usage {
    group: u32,
    /// Its own time and that of its children that have ended.
    seconds: f64,
}

impl Usage {
    fn read(stat: &str) -> Option<Self> {
        // the name in parentheses may hold anything
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
        Some(Self {
            group: fields.get(2)?.parse().ok()?,
            seconds: (ticks(11)? + ticks(12)? + ticks(13)? + ticks(14)?) / TICKS,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_numbers_are_added_up() {
        assert_eq!(
            busy_seconds("cpu  100 50 30 9999 77 5 10 5 3 0\ncpu0 1\n"),
            Some(2.0)
        );
        assert_eq!(busy_seconds("cpu 1 2\n"), None);
        let usage = Usage::read("7 (a b) c) S 1 42 1 0 -1 4 9 9 9 9 150 50 20 30 20 0 3").unwrap();
        assert_eq!(usage.group, 42);
        assert!((usage.seconds - 2.5).abs() < 1e-9);
    }

    #[test]
    fn our_own_work_is_not_that_of_others() {
        let busy = Busy::start(std::process::id()).unwrap();
        let mut x = 1u64;
        while busy.since.elapsed().as_secs_f64() < 0.2 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        let all = all().unwrap() - busy.all;
        assert!(busy.others().unwrap() * busy.since.elapsed().as_secs_f64() <= all);
    }
}
