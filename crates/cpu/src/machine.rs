//! Facts about this machine: its processor's name and its memory.

use std::fs::read_to_string;
use std::path::Path;

/// Bytes of memory in all, and bytes that are free, as far as this process may use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) total: usize,
    pub(crate) free: usize,
}

/// What the kernel says, bounded by the limits of our control group.
pub(crate) fn memory() -> Memory {
    let facts = read_to_string("/proc/meminfo").unwrap_or_default();
    let of_machine = meminfo(&facts).unwrap_or(Memory { total: 0, free: 0 });
    let groups = [
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ];
    let number = |path: &str| read_to_string(Path::new(path)).ok()?.trim().parse().ok();
    groups.iter().fold(of_machine, |memory, (limit, used)| {
        bounded(memory, number(limit), number(used))
    })
}

/// What the maker calls the processor.
pub(crate) fn name() -> String {
    let facts = read_to_string("/proc/cpuinfo").unwrap_or_default();
    facts
        .lines()
        .find(|line| line.starts_with("model name"))
        .and_then(|line| line.split(": ").nth(1))
        .map_or_else(|| std::env::consts::ARCH.to_owned(), str::to_owned)
}

fn meminfo(facts: &str) -> Option<Memory> {
    let kib = |key: &str| -> Option<usize> {
        let line = facts.lines().find(|line| line.starts_with(key))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    Some(Memory {
        total: kib("MemTotal:")? * 1024,
        free: kib("MemAvailable:")? * 1024,
    })
}

fn bounded(memory: Memory, limit: Option<usize>, used: Option<usize>) -> Memory {
    let Some(limit) = limit else {
        return memory;
    };
    Memory {
        total: memory.total.min(limit),
        free: memory.free.min(limit.saturating_sub(used.unwrap_or(0))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_kibibytes_and_bounded_by_the_group() {
        let facts = "MemTotal:  1000 kB\nMemFree:  10 kB\nMemAvailable:    600 kB\n";
        let memory = meminfo(facts).unwrap();
        assert_eq!(
            memory,
            Memory {
                total: 1_024_000,
                free: 614_400
            }
        );
        assert_eq!(bounded(memory, None, None), memory);
        let small = bounded(memory, Some(500_000), Some(100_000));
        assert_eq!(
            small,
            Memory {
                total: 500_000,
                free: 400_000
            }
        );
        assert_eq!(meminfo("nothing"), None);
    }
}
