//! Prepares a run on a machine with a GPU that has neither a Rust toolchain nor a network: builds here, and puts the
//! binaries, their material and one script into the folder `carry/ops`.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};

use crate::kernels;

/// Package and example of each binary that is carried.
const EXAMPLES: [(&str, &str); 2] = [("cuda", "prove"), ("testkit", "gpu_goldens")];
/// Folders with material for them, and what they are called there.
const MATERIAL: [(&str, &str); 1] = [("crates/models/tests/goldens", "goldens")];
/// What the device machine takes along at most, with room for the tree itself.
const MOST_BYTES: u64 = 48 << 20;
const SCRIPT: &str = include_str!("gpu.sh");

/// Fills `carry/ops` and says what to do with it.
pub(crate) fn run(root: &Path) -> anyhow::Result<ExitCode> {
    kernels::run(root)?;
    let carry = root.join("carry/ops");
    std::fs::create_dir_all(&carry).context("cannot create carry/ops")?;
    for (package, example) in EXAMPLES {
        build(root, package, example)?;
        let binary = carry.join(example);
        std::fs::copy(root.join("target/release/examples").join(example), &binary)?;
        call(Command::new("strip").arg(&binary))?;
    }
    for (from, to) in MATERIAL {
        copy_folder(&root.join(from), &carry.join(to))?;
    }
    std::fs::write(carry.join("run.sh"), SCRIPT)?;
    let bytes = size(&carry)?;
    if bytes > MOST_BYTES {
        bail!("carry/ops has {bytes} bytes, the limit is {MOST_BYTES}");
    }
    println!(
        "carry/ops is ready, {} MiB; on the GPU machine, in the root of the repository, run",
        bytes >> 20
    );
    println!("    bash carry/ops/run.sh            all parts");
    println!(
        "    bash carry/ops/run.sh PART…      some of: check attention layers products small sanitize profile"
    );
    Ok(ExitCode::SUCCESS)
}

fn build(root: &Path, package: &str, example: &str) -> anyhow::Result<()> {
    let arguments = [
        "build",
        "--release",
        "--locked",
        "-p",
        package,
        "--example",
        example,
    ];
    call(Command::new("cargo").current_dir(root).args(arguments))
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

fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in from
        .read_dir()
        .with_context(|| format!("cannot list {}", from.display()))?
    {
        let path = entry?.path();
        let target = to.join(path.file_name().expect("entries have names"));
        if path.is_dir() {
            copy_folder(&path, &target)?;
        } else {
            std::fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

fn size(folder: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in folder.read_dir()? {
        let entry = entry?;
        bytes += if entry.path().is_dir() {
            size(&entry.path())?
        } else {
            entry.metadata()?.len()
        };
    }
    Ok(bytes)
}
