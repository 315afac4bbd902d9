//! Our side: the release build of the one binary.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::load::{CAPACITY, CONCURRENT, Contender};
use super::{machine, python};

/// Builds the binary unless one is given, and says how to serve the model with it.
pub(crate) fn prepare(
    root: &Path,
    binary: Option<&Path>,
    model: &Path,
    threads: usize,
) -> anyhow::Result<Contender> {
    let commit = machine::output(root, "git", &["describe", "--always", "--dirty"]);
    let (binary, version) = match binary {
        Some(given) => (given.to_owned(), "peregrine as given".to_owned()),
        None => (
            build(root)?,
            format!("peregrine at {commit}, release build"),
        ),
    };
    let model = model.to_owned();
    Ok(Contender {
        name: "ours",
        version,
        serve: Box::new(move |port| {
            let mut command = Command::new(&binary);
            command.arg("serve").arg("--model-path").arg(&model);
            command.args(["--host", "127.0.0.1", "--disable-radix-cache"]);
            for (flag, number) in [
                ("--port", port as usize),
                ("--threads", threads),
                ("--max-total-tokens", CAPACITY),
                ("--max-running-requests", CONCURRENT),
            ] {
                command.arg(flag).arg(number.to_string());
            }
            command
        }),
        tool: None,
    })
}

fn build(root: &Path) -> anyhow::Result<PathBuf> {
    println!("building our side");
    let mut cargo = Command::new("cargo");
    let arguments = ["build", "--release", "--quiet", "--bin", "peregrine"];
    python::run(cargo.current_dir(root).args(arguments))?;
    Ok(root.join("target/release/peregrine"))
}
