//! Facts about the machine a run took place on.

mod accelerator;
mod busy;
mod course;
mod nvml;

pub(crate) use accelerator::AcceleratorWatch;
pub(crate) use busy::Busy;
pub(crate) use course::{ACCELERATORS, Moment, moments};

use std::fs;

use serde::{Deserialize, Serialize};

/// The machine, as far as it can be asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// How many of its cores may be used.
    pub cores: usize,
    /// Bytes of main memory.
    pub memory: u64,
    /// The kernel's release.
    pub kernel: String,
    /// Accelerators: name, driver, memory.
    pub accelerators: Vec<String>,
}

impl Machine {
    /// Looks at this machine.
    pub fn look() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            processor: processor(&read("/proc/cpuinfo")),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: memory(&read("/proc/meminfo")),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            accelerators: nvml::Nvml::here()
                .map(nvml::Nvml::names)
                .unwrap_or_default(),
        }
    }

    /// One line for reports.
    pub fn sentence(&self) -> String {
        let memory = self.memory as f64 / f64::from(1 << 30);
        let mut text = format!("{}, {} cores, {memory:.0} GiB", self.processor, self.cores);
        for accelerator in &self.accelerators {
            text += "; ";
            text += accelerator;
        }
        text
    }
}

fn processor(cpuinfo: &str) -> String {
    let line = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let name = line
        .and_then(|line| line.split_once(':'))
        .map(|(_, name)| name.trim());
    name.unwrap_or("unknown processor").to_owned()
}

fn memory(meminfo: &str) -> u64 {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes =
        line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_pages_are_read() {
        assert_eq!(
            processor("a: b\nmodel name\t: Some CPU @ 2 GHz\n"),
            "Some CPU @ 2 GHz"
        );
        assert_eq!(processor(""), "unknown processor");
        assert_eq!(memory("MemFree: 1 kB\nMemTotal:   2048 kB\n"), 2 << 20);
    }

    #[test]
    fn this_machine_has_cores() {
        let machine = Machine::look();
        assert!(machine.cores > 0);
        assert!(machine.sentence().contains("cores"));
    }
}
