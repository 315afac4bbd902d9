//! Our serving benchmark against the reference's Python clients: what the client itself costs.
//!
//! All clients put the same load on the same scripted server, one after another on an idle machine.
//! What a client needs to start is measured apart, with a load of one request, and taken off.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

/// Loads: a name, the server's milliseconds between tokens, events per write, the backend, requests
/// and tokens each. 256 streams are under way at once.
const LOADS: [Load; 4] = [
    Load {
        name: "20 ms per token, /generate",
        gap: "20",
        per_write: "1",
        backend: "sglang",
        requests: 256,
        tokens: 1024,
    },
    Load {
        name: "20 ms per token, completions",
        gap: "20",
        per_write: "1",
        backend: "sglang-oai",
        requests: 256,
        tokens: 1024,
    },
    Load {
        name: "as fast as it goes, /generate",
        gap: "0",
        per_write: "64",
        backend: "sglang",
        requests: 4096,
        tokens: 256,
    },
    Load {
        name: "as fast as it goes, completions",
        gap: "0",
        per_write: "64",
        backend: "sglang-oai",
        requests: 4096,
        tokens: 256,
    },
];
const STREAMS: u32 = 256;
const PORT: u16 = 31_377;
/// The kernel counts processor time in ticks of a hundredth of a second.
const TICKS: f64 = 100.0;

struct Load {
    name: &'static str,
    gap: &'static str,
    per_write: &'static str,
    backend: &'static str,
    requests: u32,
    tokens: u32,
}

struct Contender {
    name: &'static str,
    command: Vec<String>,
}

/// What one client needed for one load.
struct Cost {
    cpu: f64,
    memory: u64,
    rate: f64,
}

/// Measures every client under every load and prints the table.
pub(crate) fn run(root: &Path) -> anyhow::Result<ExitCode> {
    let built = Command::new("cargo")
        .args([
            "build",
            "--release",
            "-p",
            "bench",
            "--example",
            "bench_serving",
        ])
        .args(["-p", "testkit", "--bin", "scripted-server"])
        .current_dir(root)
        .status()?;
    ensure!(built.success(), "the benchmark does not build");
    let clients = root.join("target/reference-clients");
    if !clients.join("ready").exists() {
        let made = Command::new(root.join("reference/setup_bench_clients.sh")).status()?;
        ensure!(made.success(), "the reference clients cannot be had");
    }
    let work = root.join("target/versus/bench-serving");
    fs::create_dir_all(&work)?;
    println!(
        "| load | client | CPU s per million tokens | tokens/s | peak memory MB | CPU, ours is 1/… | rate, ours is …× |"
    );
    println!("|---|---|---|---|---|---|---|");
    for load in &LOADS {
        let server = start_server(root, load)?;
        let mut ours: Option<Cost> = None;
        for contender in contenders(root, &clients) {
            let cost = measure(&contender, load, root, &work)?;
            let ratios = ours.as_ref().map_or_else(
                || (String::new(), String::new()),
                |ours| {
                    (
                        format!("{:.1}", cost.cpu / ours.cpu),
                        format!("{:.1}", ours.rate / cost.rate),
                    )
                },
            );
            println!(
                "| {} | {} | {:.2} | {:.0} | {:.0} | {} | {} |",
                load.name,
                contender.name,
                cost.cpu,
                cost.rate,
                cost.memory as f64 / 1024.0,
                ratios.0,
                ratios.1,
            );
            if ours.is_none() {
                ours = Some(cost);
            }
        }
        drop(server);
    }
    Ok(ExitCode::SUCCESS)
}

fn contenders(root: &Path, clients: &Path) -> Vec<Contender> {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let python = |name, release: &str| Contender {
        name,
        command: vec![
            text(clients.join("venv/bin/python")),
            text(root.join("reference/bench_client.py")),
            text(clients.join(release)),
        ],
    };
    vec![
        Contender {
            name: "ours",
            command: vec![text(root.join("target/release/examples/bench_serving"))],
        },
        python("sglang 0.5.6.post2", "0.5.6.post2"),
        python("sglang 0.5.23", "0.5.23"),
    ]
}

/// The server process, ended when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn start_server(root: &Path, load: &Load) -> anyhow::Result<Server> {
    let tokenizer = root.join("crates/bench/tests/data/tokenizer");
    let child = Command::new(root.join("target/release/scripted-server"))
        .arg(PORT.to_string())
        .arg(tokenizer)
        .args(["50", load.gap, "1", load.per_write])
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

/// The cost of a load, less that of starting up.
fn measure(contender: &Contender, load: &Load, root: &Path, work: &Path) -> anyhow::Result<Cost> {
    let small = once(contender, load, 1, root, work)?;
    let whole = once(contender, load, load.requests, root, work)?;
    let millions = f64::from(load.requests) * f64::from(load.tokens) / 1e6;
    Ok(Cost {
        cpu: (whole.cpu - small.cpu) / millions,
        ..whole
    })
}

fn once(
    contender: &Contender,
    load: &Load,
    requests: u32,
    root: &Path,
    work: &Path,
) -> anyhow::Result<Cost> {
    let result = work.join("result.jsonl");
    fs::remove_file(&result).ok();
    let number = |number: u32| number.to_string();
    let before = children_cpu()?;
    let mut child = Command::new(&contender.command[0])
        .args(&contender.command[1..])
        .args([
            "--base-url",
            &format!("http://127.0.0.1:{PORT}"),
            "--backend",
            load.backend,
        ])
        .args([
            "--dataset-name",
            "random-ids",
            "--random-input-len",
            "32",
            "--random-range-ratio",
            "1",
        ])
        .args([
            "--random-output-len",
            &number(load.tokens),
            "--num-prompts",
            &number(requests),
        ])
        .args([
            "--max-concurrency",
            &number(STREAMS),
            "--disable-tqdm",
            "--output-file",
        ])
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
    ensure!(status.success(), "{} failed", contender.name);
    let cpu = children_cpu()? - before;
    let line = fs::read_to_string(&result)?
        .replace("Infinity", "0")
        .replace("NaN", "0");
    let line: serde_json::Value = serde_json::from_str(line.lines().last().unwrap_or_default())?;
    let done = line["completed"].as_u64().unwrap_or(0);
    if done != u64::from(requests) {
        bail!("{} finished {done} of {requests} requests", contender.name);
    }
    Ok(Cost {
        cpu,
        memory,
        rate: line["output_throughput"].as_f64().unwrap_or(0.0),
    })
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
