//! Our serving benchmark against the reference's Python clients: what the client itself costs.
//!
//! All clients put the same loads on the same scripted server, one after another on an idle machine.
//! What a client needs to start is measured apart, with a load of one request, and taken off. Beside
//! the clients stands a bare reader, which shows what of their cost is the kernel's.

mod contender;
mod load;
mod process;
mod table;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, ensure};

use super::{idle, machine, report};
use contender::{Cost, contenders};
use load::{LOADS, Load};

/// Seconds to wait for other processes to be quiet.
const PATIENCE: u64 = 120;

/// Measures every client under every load, prints the table and writes it down.
pub(crate) fn run(root: &Path) -> anyhow::Result<ExitCode> {
    build(root)?;
    let fetched = Command::new(root.join("reference/setup_bench_clients.sh")).status()?;
    ensure!(fetched.success(), "the reference clients cannot be had");
    let clients = root.join("target/reference-clients");
    let work = root.join("target/versus/bench-serving");
    fs::create_dir_all(&work)?;
    let contenders = contenders(root, &clients);
    let names: Vec<&str> = contenders.iter().map(|contender| contender.name).collect();
    idle::wait(PATIENCE)?;
    let watch = idle::Watch::start(None)?;
    let mut measured: Vec<(&Load, Vec<Cost>)> = Vec::new();
    for load in &LOADS {
        let _server = load.serve(root)?;
        let mut costs = Vec::new();
        for contender in &contenders {
            println!("{}: {}", load.name, contender.name);
            costs.push(contender.measure(load, root, &work)?);
        }
        measured.push((load, costs));
    }
    let others = watch.others()?;
    let error = timing_error(root)?;
    let mut section = table::table(&names, &measured, error);
    section.push('\n');
    for (name, fact) in machine::common_facts(root)? {
        let _ = writeln!(section, "- {name}: {fact}");
    }
    let _ = writeln!(
        section,
        "- other processes used {others:.2} cores on average meanwhile"
    );
    println!("\n{section}");
    report::write(&root.join("docs/performance.md"), "bench-serving", &section)?;
    println!("written to docs/performance.md");
    Ok(ExitCode::SUCCESS)
}

/// Cargo without what the cargo that runs this says of it: build scripts that look at that would run again.
fn cargo(root: &Path) -> Command {
    let mut cargo = Command::new("cargo");
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    cargo.current_dir(root);
    cargo
}

fn build(root: &Path) -> anyhow::Result<()> {
    let built = cargo(root)
        .args(["build", "--release", "-p", "bench"])
        .args(["--example", "bench_serving", "-p", "testkit"])
        .args(["--bin", "scripted-server", "--bin", "bare-reader"])
        .status()?;
    ensure!(built.success(), "the benchmark does not build");
    Ok(())
}

/// The 99th percentile of how far our moments lie from the server's own, in microseconds.
fn timing_error(root: &Path) -> anyhow::Result<f64> {
    println!("1,000 streams against the server's own log");
    let tested = cargo(root)
        .args(["test", "--quiet", "-p", "bench", "--test", "timing"])
        .args(["--", "--nocapture"])
        .output()?;
    let text = String::from_utf8_lossy(&tested.stdout);
    let found = text
        .split_once("own timing error over")
        .and_then(|(_, rest)| rest.split_once("p99 "))
        .and_then(|(_, rest)| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok());
    found.with_context(|| format!("the timing test says nothing of its error:\n{text}"))
}
