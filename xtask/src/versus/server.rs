//! A server under measurement: started, waited for, looked at and stopped.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::{client, idle};

const START: Duration = Duration::from_mins(2);

/// A running server; it is stopped when dropped.
pub(crate) struct Server {
    child: Child,
    port: u16,
}

/// Bytes of memory as the kernel counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Resident now.
    pub(crate) resident: u64,
    /// Resident at the highest point.
    pub(crate) peak: u64,
}

impl Server {
    /// Starts the command, which gets a free port, and waits until the server answers.
    pub(crate) fn start(command: impl FnOnce(u16) -> Command, log: &Path) -> anyhow::Result<Self> {
        let port = free_port()?;
        let log = File::create(log).context("cannot create the log file")?;
        let child = command(port)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start the server")?;
        let mut server = Self { child, port };
        let start = Instant::now();
        while !client::is_ready(port) {
            let ended = server.child.try_wait()?;
            ensure!(ended.is_none(), "the server ended before it was ready");
            ensure!(
                start.elapsed() < START,
                "the server was not ready in {START:?}"
            );
            idle::pause(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The memory it has.
    pub(crate) fn memory(&self) -> anyhow::Result<Memory> {
        let path = format!("/proc/{}/status", self.id());
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        memory(&text).with_context(|| format!("{path} is not as expected"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port")?;
    Ok(listener.local_addr()?.port())
}

fn memory(status: &str) -> Option<Memory> {
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kilobytes * 1024)
    };
    Some(Memory {
        resident: bytes("VmRSS:")?,
        peak: bytes("VmHWM:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_kernels_page() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        let expected = Memory {
            resident: 1 << 20,
            peak: 2 << 20,
        };
        assert_eq!(memory(status), Some(expected));
        assert_eq!(memory("VmRSS: 1 kB\n"), None);
    }

    #[test]
    fn a_server_that_ends_at_once_is_an_error() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let started = Server::start(|_| Command::new("false"), log.path());
        let error = started.err().unwrap();
        assert_eq!(error.to_string(), "the server ended before it was ready");
    }
}
