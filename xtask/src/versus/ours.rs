//! Our side: the release build of the one binary.

use std::path::Path;
use std::process::Command;

use super::load::{CAPACITY, CONCURRENT, Contender};
use super::{machine, python};

/// Builds the binary and says how to serve the model with it.
pub(crate) fn prepare(root: &Path, model: &Path, threads: usize) -> anyhow::Result<Contender> {
    println!("building our side");
    let mut build = Command::new("cargo");
    python::run(build.current_dir(root).args([
        "build",
        "--release",
        "--quiet",
        "--bin",
        "peregrine",
    ]))?;
    let binary = root.join("target/release/peregrine");
    let model = model.to_owned();
    Ok(Contender {
        name: "ours",
        version: format!(
            "peregrine at {}",
            machine::output(root, "git", &["describe", "--always", "--dirty"])
        ),
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
