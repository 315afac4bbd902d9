//! A client, and what one load costs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::json;

use super::load::{Load, PORT};
use super::process;

const STREAMS: &str = "256";
/// The bare reader rests as long as ours does between two looks at many sockets, in microseconds.
const BARE_NAP: &str = "500";

/// Requests, and the tokens of each answer.
type Size = (u32, u32);
/// What a client is given to do when its start is measured.
const SHORT: Size = (1, 8);

/// A client by its name and the words that start it.
pub(super) struct Contender {
    pub(super) name: &'static str,
    command: Vec<String>,
    /// How often it is measured without and with a pace; what is cheap is measured more than once.
    runs: (usize, usize),
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Takes the arguments of the reference and writes its result.
    Benchmark,
    /// Sends the same requests and throws away what comes.
    BareReader,
}

/// What one client needed for one load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// Processor seconds per million tokens, those to start up taken off.
    pub(super) cpu: f64,
    /// The most memory resident, MB.
    pub(super) memory: f64,
    /// Output tokens per second by the client's own account.
    pub(super) rate: f64,
}

/// What is measured: ours, the least that any client could need, and the releases of the reference.
pub(super) fn contenders(root: &Path, clients: &Path) -> Vec<Contender> {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let python = |name, release: &str| Contender {
        name,
        command: vec![
            text(root.join("target/python/bench-clients/bin/python")),
            text(root.join("reference/bench_client.py")),
            text(clients.join(release)),
        ],
        runs: (1, 1),
        kind: Kind::Benchmark,
    };
    vec![
        Contender {
            name: "ours",
            command: vec![text(root.join("target/release/examples/bench_serving"))],
            runs: (5, 3),
            kind: Kind::Benchmark,
        },
        Contender {
            name: "bare reader",
            command: vec![text(root.join("target/release/bare-reader"))],
            runs: (5, 3),
            kind: Kind::BareReader,
        },
        python("sglang 0.5.6.post2", "0.5.6.post2"),
        python("sglang 0.5.23", "0.5.23"),
    ]
}

impl Contender {
    /// The cost of a load, the median of its runs, less that of starting up.
    pub(super) fn measure(&self, load: &Load, root: &Path, work: &Path) -> anyhow::Result<Cost> {
        let start = self.once(load, SHORT, root, work)?;
        let runs = if load.is_unpaced {
            self.runs.0
        } else {
            self.runs.1
        };
        let mut costs = Vec::new();
        for _ in 0..runs {
            costs.push(self.once(load, (load.requests, load.tokens), root, work)?);
        }
        let median = |value: fn(&Cost) -> f64| {
            let mut values: Vec<f64> = costs.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        Ok(Cost {
            cpu: (median(|cost| cost.cpu) - start.cpu) / load.millions(),
            memory: median(|cost| cost.memory),
            rate: median(|cost| cost.rate),
        })
    }

    /// One run; its processor time is that of the whole process.
    fn once(&self, load: &Load, size: Size, root: &Path, work: &Path) -> anyhow::Result<Cost> {
        match self.kind {
            Kind::Benchmark => self.benchmark(load, size, root, work),
            Kind::BareReader => self.bare_reader(load, size),
        }
    }

    fn benchmark(
        &self,
        load: &Load,
        (requests, tokens): Size,
        root: &Path,
        work: &Path,
    ) -> anyhow::Result<Cost> {
        let result = work.join("result.jsonl");
        fs::remove_file(&result).ok();
        let url = format!("http://127.0.0.1:{PORT}");
        let ran = process::run(
            Command::new(&self.command[0])
                .args(&self.command[1..])
                .args(["--base-url", &url, "--backend", load.backend])
                .args(["--dataset-name", "random-ids", "--random-input-len", "32"])
                .args(["--random-range-ratio", "1"])
                .args(["--random-output-len", &tokens.to_string()])
                .args(["--num-prompts", &requests.to_string()])
                .args(["--max-concurrency", STREAMS, "--disable-tqdm"])
                .arg("--output-file")
                .arg(&result)
                .env("HF_HUB_OFFLINE", "1")
                .current_dir(root)
                .stdout(Stdio::null()),
        )?;
        let line = fs::read_to_string(&result)?
            .replace("Infinity", "0")
            .replace("NaN", "0");
        let line: serde_json::Value =
            serde_json::from_str(line.lines().last().unwrap_or_default())?;
        let done = line["completed"].as_u64().unwrap_or(0);
        ensure!(
            done == u64::from(requests),
            "{} finished {done} of {requests} requests",
            self.name
        );
        Ok(Cost {
            cpu: ran.cpu,
            memory: ran.memory,
            rate: line["output_throughput"].as_f64().unwrap_or(0.0),
        })
    }

    fn bare_reader(&self, load: &Load, (requests, tokens): Size) -> anyhow::Result<Cost> {
        let prompt = " calm sea".repeat(16);
        let (path, body) = match load.backend {
            "sglang" => (
                "/generate",
                json!({
                    "text": prompt,
                    "sampling_params": { "max_new_tokens": tokens, "ignore_eos": true },
                    "stream": true,
                }),
            ),
            _ => (
                "/v1/completions",
                json!({
                    "model": "scripted",
                    "prompt": prompt,
                    "max_tokens": tokens,
                    "ignore_eos": true,
                    "stream": true,
                }),
            ),
        };
        let nap = if load.is_unpaced { "0" } else { BARE_NAP };
        let ran = process::run(
            Command::new(&self.command[0])
                .args([&PORT.to_string(), path, &body.to_string()])
                .args([STREAMS, &requests.to_string(), nap])
                .stdout(Stdio::piped()),
        )?;
        let seconds: f64 = ran
            .output
            .trim()
            .parse()
            .context("the bare reader does not say how long it took")?;
        Ok(Cost {
            cpu: ran.cpu,
            memory: ran.memory,
            rate: f64::from(requests) * f64::from(tokens) / seconds,
        })
    }
}
