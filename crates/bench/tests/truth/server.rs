//! `reference/mock_server.c`: compiled, run, and its log read.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// One request as the server saw it; seconds by its clock.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) read: f64,
    /// `ok`, `status`, `in_stream` or `cut`.
    pub(super) how: String,
    pub(super) end: f64,
    /// When each event was sent, and its tokens.
    pub(super) events: Vec<(f64, u64)>,
}

impl Seen {
    pub(super) fn is_ok(&self) -> bool {
        self.how == "ok"
    }

    pub(super) fn tokens(&self) -> u64 {
        self.events.iter().map(|event| event.1).sum()
    }

    pub(super) fn ttft(&self) -> f64 {
        self.events[0].0 - self.read
    }

    pub(super) fn e2e(&self) -> f64 {
        self.end - self.read
    }

    /// One gap per token after the first event; tokens of an event share theirs.
    pub(super) fn gaps(&self) -> Vec<f64> {
        let pairs = self.events.windows(2);
        pairs
            .flat_map(|pair| {
                let gap = (pair[1].0 - pair[0].0) / pair[1].1 as f64;
                vec![gap; pair[1].1 as usize]
            })
            .collect()
    }

    /// Seconds per token after the first event.
    pub(super) fn tpot(&self) -> f64 {
        let last = self.events[self.events.len() - 1].0;
        (last - self.events[0].0) / (self.tokens() - 1) as f64
    }
}

/// A running mock; dropping it ends it.
pub(super) struct Mock {
    child: Child,
    folder: tempfile::TempDir,
    pub(super) base: String,
}

impl Mock {
    /// Starts a server of this behaviour; nothing where there is no C compiler.
    pub(super) fn start(behaviour: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let source =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../reference/mock_server.c");
        let program = folder.path().join("mock_server");
        let compiled = Command::new("cc")
            .args(["-O2", "-o"])
            .args([&program, &source])
            .status();
        match compiled {
            Err(error) => {
                println!("skipped: there is no C compiler to build the mock server: {error}");
                return None;
            }
            Ok(status) => assert!(status.success(), "reference/mock_server.c does not compile"),
        }
        let mut child = Command::new(&program)
            .arg(folder.path().join("log"))
            .args(behaviour.split_whitespace())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut port).unwrap();
        Some(Self {
            child,
            folder,
            base: format!("http://127.0.0.1:{}", port.trim()),
        })
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Every request so far, in the order of arrival.
    pub(super) fn log(&self) -> Vec<Seen> {
        let text = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
        let seconds = |word: &str| word.parse::<u64>().unwrap() as f64 / 1e9;
        let mut seen: Vec<Seen> = text
            .lines()
            .map(|line| {
                let words: Vec<&str> = line.split(' ').collect();
                let events = words[4..].iter().map(|word| {
                    let (at, tokens) = word.split_once(':').unwrap();
                    (seconds(at), tokens.parse().unwrap())
                });
                Seen {
                    read: seconds(words[1]),
                    how: words[2].to_owned(),
                    end: seconds(words[3]),
                    events: events.collect(),
                }
            })
            .collect();
        seen.sort_by(|a, b| a.read.total_cmp(&b.read));
        seen
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
