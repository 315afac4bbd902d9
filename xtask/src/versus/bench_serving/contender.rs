//! A client, and what one load costs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use super::load::{Load, PORT};

const STREAMS: &str = "256";
/// The kernel counts processor time in ticks of a hundredth of a second.
const TICKS: f64 = 100.0;

/// A client by its name and the words that start it.
pub(super) struct Contender {
    pub(super) name: &'static str,
    command: Vec<String>,
    /// How often it is measured; what is over in a moment is measured more than once.
    runs: usize,
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

/// Ours first, then the releases of the reference.
pub(super) fn contenders(root: &Path, clients: &Path) -> Vec<Contender> {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let python = |name, release: &str| Contender {
        name,
        command: vec![
            text(root.join("target/python/bench-clients/bin/python")),
            text(root.join("reference/bench_client.py")),
            text(clients.join(release)),
        ],
        runs: 1,
    };
    vec![
        Contender {
            name: "ours",
            command: vec![text(root.join("target/release/examples/bench_serving"))],
            runs: 5,
        },
        python("sglang 0.5.6.post2", "0.5.6.post2"),
        python("sglang 0.5.23", "0.5.23"),
    ]
}

impl Contender {
    /// The cost of a load, the median of its runs, less that of starting up.
    pub(super) fn measure(&self, load: &Load, root: &Path, work: &Path) -> anyhow::Result<Cost> {
        let small = self.once(load, 1, root, work)?;
        let mut costs = Vec::new();
        for _ in 0..if load.is_unpaced { self.runs } else { 1 } {
            costs.push(self.once(load, load.requests, root, work)?);
        }
        let median = |value: fn(&Cost) -> f64| {
            let mut values: Vec<f64> = costs.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        Ok(Cost {
            cpu: (median(|cost| cost.cpu) - small.cpu) / load.millions(),
            memory: median(|cost| cost.memory),
            rate: median(|cost| cost.rate),
        })
    }

    /// One run; its processor time is that of the whole process.
    fn once(&self, load: &Load, requests: u32, root: &Path, work: &Path) -> anyhow::Result<Cost> {
        let result = work.join("result.jsonl");
        fs::remove_file(&result).ok();
        let before = children_cpu()?;
        let (requests_text, tokens) = (requests.to_string(), load.tokens.to_string());
        let url = format!("http://127.0.0.1:{PORT}");
        let mut child = Command::new(&self.command[0])
            .args(&self.command[1..])
            .args(["--base-url", &url, "--backend", load.backend])
            .args(["--dataset-name", "random-ids", "--random-input-len", "32"])
            .args(["--random-range-ratio", "1", "--random-output-len", &tokens])
            .args(["--num-prompts", &requests_text])
            .args(["--max-concurrency", STREAMS, "--disable-tqdm"])
            .arg("--output-file")
            .arg(&result)
            .env("HF_HUB_OFFLINE", "1")
            .current_dir(root)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut memory = 0;
        let status = loop {
            memory = memory.max(peak_memory(child.id()).unwrap_or(0));
            if let Some(status) = child.try_wait()? {
                break status;
            }
            std::thread::park_timeout(Duration::from_millis(20));
        };
        ensure!(status.success(), "{} failed", self.name);
        let cpu = children_cpu()? - before;
        let line = fs::read_to_string(&result)?
            .replace("Infinity", "0")
            .replace("NaN", "0");
        let line: serde_json::Value =
            serde_json::from_str(line.lines().last().unwrap_or_default())?;
        let done = line["completed"].as_u64().unwrap_or(0);
        if done != u64::from(requests) {
            bail!("{} finished {done} of {requests} requests", self.name);
        }
        Ok(Cost {
            cpu,
            memory: memory as f64 / 1024.0,
            rate: line["output_throughput"].as_f64().unwrap_or(0.0),
        })
    }
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
