//! A Python environment under target/versus for what packages bring: sources, models, build tools.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

/// The environment's folder of programs, made when it is not there.
pub(crate) fn programs(folder: &Path) -> anyhow::Result<PathBuf> {
    let environment = folder.join("python");
    let programs = environment.join("bin");
    if !programs.join("pip").exists() {
        run(Command::new("python3")
            .args(["-m", "venv"])
            .arg(&environment))?;
    }
    Ok(programs)
}

/// Downloads one version of one package with pip and without what it depends on.
pub(crate) fn download(
    folder: &Path,
    requirement: &str,
    options: &[&str],
) -> anyhow::Result<PathBuf> {
    let downloads = folder.join("download");
    println!("fetching {requirement}");
    let pip = programs(folder)?.join("pip");
    run(Command::new(pip)
        .args(["download", "--quiet", "--no-deps", "--dest"])
        .arg(&downloads)
        .args(options)
        .arg(requirement))?;
    Ok(downloads)
}

/// Runs a command that says a lot, into a log file.
pub(crate) fn run_logged(command: &mut Command, log: &Path) -> anyhow::Result<()> {
    let file = File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
    let (out, errors) = (file.try_clone()?, file);
    run(command.stdout(out).stderr(errors)).with_context(|| format!("see {}", log.display()))
}

/// Runs a command and fails when it does.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .with_context(|| format!("cannot run {name}"))?;
    ensure!(status.success(), "{name} failed: {status}");
    Ok(())
}
