//! Prepares a run on a machine with a GPU that has neither a Rust toolchain nor a network: builds here, and puts the
//! binaries, their material and one script each for ops, for the speed of serving and for all else of it into the folder
//! `carry`.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};

use crate::folder;
use crate::kernels::{self, Code};

/// Package and example of each binary that is carried.
const EXAMPLES: [(&str, &str); 2] = [("cuda", "prove"), ("testkit", "gpu_goldens")];
/// Folders with material for them, and what they are called there.
const MATERIAL: [(&str, &str); 1] = [("crates/models/tests/goldens", "goldens")];
/// What the device machine takes along at most, with room for the tree itself.
const MOST_BYTES: u64 = 58 << 20;
const SCRIPT: &str = include_str!("gpu.sh");
const SAME_GPU: &str = include_str!("same_gpu.py");
/// Serving and what it reads.
const SERVING: [(&str, &str); 2] = [
    ("serving.sh", include_str!("serving.sh")),
    ("server.sh", include_str!("server.sh")),
];
/// What the trial is made of.
const TRIAL: [(&str, &str); 5] = [
    ("trial.sh", include_str!("trial/trial.sh")),
    ("trial.py", include_str!("trial/trial.py")),
    ("folder.py", include_str!("trial/folder.py")),
    ("shim.c", include_str!("trial/shim.c")),
    ("matrix.toml", include_str!("trial/matrix.toml")),
];

/// Fills `carry` and says what to do with it.
pub(crate) fn run(root: &Path, code: Code) -> anyhow::Result<ExitCode> {
    kernels::run(root, code)?;
    let carry = root.join("carry");
    let ops = carry.join("ops");
    std::fs::create_dir_all(&ops).context("cannot create carry/ops")?;
    for (package, example) in EXAMPLES {
        bring(root, package, Target::Example(example), &ops)?;
    }
    for (from, to) in MATERIAL {
        folder::copy(&root.join(from), &ops.join(to))?;
    }
    std::fs::write(ops.join("run.sh"), SCRIPT)?;
    std::fs::write(ops.join("same_gpu.py"), SAME_GPU)?;
    bring(root, "cli", Target::Binary("peregrine"), &carry)?;
    bring(root, "testkit", Target::Example("soak"), &carry)?;
    for (name, text) in SERVING {
        std::fs::write(carry.join(name), text)?;
    }
    std::fs::create_dir_all(carry.join("trial"))?;
    for (name, text) in TRIAL {
        std::fs::write(carry.join("trial").join(name), text)?;
    }
    let pack = carry.join("pack.tgz");
    let mut packed = ["ops", "peregrine", "soak"]
        .map(|name| format!("carry/{name}"))
        .to_vec();
    packed.extend(SERVING.map(|(name, _)| format!("carry/{name}")));
    // a model lies beside the trial and has a way of its own
    packed.extend(TRIAL.map(|(name, _)| format!("carry/trial/{name}")));
    let tar = ["-czf", "carry/pack.tgz", "-C", "."];
    let models = carry.join("models").exists().then_some("carry/models");
    call(
        Command::new("tar")
            .current_dir(root)
            .args(tar)
            .args(packed)
            .args(models),
    )?;
    let bytes = pack.metadata()?.len();
    if bytes > MOST_BYTES {
        bail!("carry/pack.tgz has {bytes} bytes, the limit is {MOST_BYTES}");
    }
    println!(
        "carry/pack.tgz is ready, {} MiB; on the GPU machine, where it was unpacked, run",
        bytes >> 20
    );
    println!("    bash carry/ops/run.sh            all parts");
    println!(
        "    bash carry/ops/run.sh PART…      some of: check ampere attention decode layers prompts products firsts few mix sustained heads kernels fp8 fp8-layers fp8-kernels small loading sanitize profile"
    );
    println!(
        "    bash carry/serving.sh PART MODEL…  one of: bench repeat soak trace; MODEL is a folder in carry/models"
    );
    println!(
        "    GGUF=FILE bash carry/trial/trial.sh [PART…]  some of: answers flags backends devices memory formats profile laboratory loss"
    );
    Ok(ExitCode::SUCCESS)
}

/// Something that cargo builds.
#[derive(Clone, Copy)]
enum Target {
    Binary(&'static str),
    Example(&'static str),
}

/// Builds a target for speed and puts it into a folder, without symbols.
fn bring(root: &Path, package: &str, target: Target, to: &Path) -> anyhow::Result<()> {
    let (kind, name, built) = match target {
        Target::Binary(name) => ("--bin", name, "target/release"),
        Target::Example(name) => ("--example", name, "target/release/examples"),
    };
    let arguments = ["build", "--release", "--locked", "-p", package, kind, name];
    call(Command::new("cargo").current_dir(root).args(arguments))?;
    let binary = to.join(name);
    std::fs::copy(root.join(built).join(name), &binary)?;
    call(Command::new("strip").arg(&binary))
}

fn call(command: &mut Command) -> anyhow::Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot run {command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_scripts_read_is_carried_where_they_look_for_it() {
        let serving = SERVING.map(|(name, text)| (name.to_owned(), text));
        let trial = TRIAL.map(|(name, text)| (format!("trial/{name}"), text));
        let carried: Vec<_> = serving.into_iter().chain(trial).collect();
        let mut read = 0;
        for (script, text) in &carried {
            let folder = script.rsplit_once('/').map_or("", |(folder, _)| folder);
            let sourced = text.lines().filter_map(|line| line.strip_prefix(". "));
            for name in sourced {
                let name = name
                    .trim_matches('"')
                    .replace("$here/", &format!("/{folder}/"));
                let name = name
                    .replace("/trial/../", "/")
                    .trim_start_matches('/')
                    .to_owned();
                assert!(
                    carried.iter().any(|(known, _)| *known == name),
                    "{script}: {name}"
                );
                read += 1;
            }
        }
        assert_eq!(read, 2, "both scripts start servers in the same way");
    }
}
