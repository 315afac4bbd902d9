//! The loads that all clients are put under, and the server they speak to.

use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

pub(super) const PORT: u16 = 31_377;

/// What the server does and what is asked of it; 256 streams are under way at once.
pub(super) struct Load {
    /// In the words of the table.
    pub(super) name: &'static str,
    pub(super) backend: &'static str,
    /// Milliseconds to the first token, and from one write to the next.
    first: &'static str,
    gap: &'static str,
    /// Tokens in each write.
    per_write: &'static str,
    pub(super) requests: u32,
    /// Tokens of each answer.
    pub(super) tokens: u32,
    /// Whether the server waits for nobody but the client.
    pub(super) is_unpaced: bool,
}

pub(super) const LOADS: [Load; 4] = [
    Load {
        name: "completions, as fast as it is read",
        backend: "sglang-oai",
        first: "0",
        gap: "0",
        per_write: "64",
        requests: 1024,
        tokens: 1024,
        is_unpaced: true,
    },
    Load {
        name: "/generate, as fast as it is read",
        backend: "sglang",
        first: "0",
        gap: "0",
        per_write: "64",
        requests: 4096,
        tokens: 256,
        is_unpaced: true,
    },
    Load {
        name: "completions, one token every 20 ms",
        backend: "sglang-oai",
        first: "50",
        gap: "20",
        per_write: "1",
        requests: 256,
        tokens: 512,
        is_unpaced: false,
    },
    Load {
        name: "/generate, one token every 20 ms",
        backend: "sglang",
        first: "50",
        gap: "20",
        per_write: "1",
        requests: 256,
        tokens: 512,
        is_unpaced: false,
    },
];

impl Load {
    /// Tokens of the whole load, in millions.
    pub(super) fn millions(&self) -> f64 {
        f64::from(self.requests) * f64::from(self.tokens) / 1e6
    }

    /// Starts the server that answers this load.
    pub(super) fn serve(&self, root: &Path) -> anyhow::Result<Server> {
        let child = Command::new(root.join("target/release/scripted-server"))
            .arg(PORT.to_string())
            .arg(root.join("crates/bench/tests/data/tokenizer"))
            .args([self.first, self.gap, "1", self.per_write])
            .spawn()
            .context("the scripted server does not start")?;
        let server = Server(child);
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(("127.0.0.1", PORT)).is_err() {
            ensure!(
                Instant::now() < deadline,
                "the scripted server does not listen"
            );
            std::thread::yield_now();
        }
        Ok(server)
    }
}

/// The server process, ended when dropped.
pub(super) struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
