//! The memory of the server's process, on the host and on the device.

use std::fmt;
use std::process::Command;

/// Bytes at one moment.
pub(crate) struct Memory {
    pub(crate) host: Option<u64>,
    pub(crate) device: Option<u64>,
}

impl Memory {
    pub(crate) fn of(pid: u32) -> Self {
        Self {
            host: resident(pid),
            device: on_device(),
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = |bytes: Option<u64>| match bytes {
            Some(bytes) => format!("{} MiB", bytes >> 20),
            None => "not known".to_owned(),
        };
        let (host, device) = (told(self.host), told(self.device));
        write!(f, "host memory {host}, device memory {device}")
    }
}

fn resident(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// All memory in use: in a container the driver does not tell processes apart.
fn on_device() -> Option<u64> {
    let asked = Command::new("nvidia-smi")
        .args(["--query-gpu=memory.used", "--format=csv,noheader,nounits"])
        .output()
        .ok()?;
    let text = String::from_utf8(asked.stdout).ok()?;
    let mebibytes: u64 = text.lines().next()?.trim().parse().ok()?;
    Some(mebibytes << 20)
}

/// The most memory in the second fifth of the time and in the last.
pub(crate) struct Growth {
    pub(crate) early: u64,
    pub(crate) late: u64,
}

impl Growth {
    pub(crate) fn of(memory: &[Memory], of: fn(&Memory) -> Option<u64>) -> Option<Self> {
        let fifth = memory.len() / 5;
        let most = |part: &[Memory]| part.iter().filter_map(of).max();
        Some(Self {
            early: most(&memory[fifth..2 * fifth])?,
            late: most(&memory[memory.len() - fifth..])?,
        })
    }
}
