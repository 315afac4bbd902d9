//! Tests GPU kernels on the host: headers of `crates/cuda/emulator/common` take the place of those
//! that hold the GPU's instructions, and every `crates/cuda/emulator/tests/*.cc` is a program that
//! runs kernels and compares what they find. Needs a C++ compiler and CUDA's headers, but no GPU.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};

use crate::{folder, kernels, workers};

const COMPILER: &str = "c++";
/// Kernels read the same bytes as different types, and fibers jump between stacks.
const FLAGS: [&str; 9] = [
    "-std=c++20",
    "-O2",
    "-g",
    "-Wall",
    "-Wno-unknown-pragmas",
    "-Wno-sign-compare",
    "-fno-strict-aliasing",
    "-U_FORTIFY_SOURCE",
    "-pthread",
];

/// Compiles and runs all tests; stops at the first that is wrong.
pub(crate) fn run(root: &Path) -> anyhow::Result<ExitCode> {
    let Some(toolkit) = kernels::found(root) else {
        bail!(
            "emulate reads CUDA's headers: `cargo xtask kernels` brings them, or set CUDA_HOME to a CUDA 13 toolkit"
        );
    };
    let workshop = Workshop::new(root, &toolkit)?;
    let tests = programs(&workshop.emulator.join("tests"))?;
    workshop.compile(&workshop.emulator.join("machine.cc"), &["-c"], "machine.o")?;
    workers::for_each(&tests, |test| workshop.test(test))?;
    Ok(ExitCode::SUCCESS)
}

/// Where tests are made.
struct Workshop {
    emulator: PathBuf,
    kernels: PathBuf,
    headers: PathBuf,
    out: PathBuf,
}

impl Workshop {
    /// Lays the emulator's headers over a copy of the kernels.
    fn new(root: &Path, toolkit: &Path) -> anyhow::Result<Self> {
        let out = root.join("target/emulator");
        let workshop = Self {
            emulator: root.join("crates/cuda/emulator"),
            kernels: out.join("kernels"),
            headers: toolkit.join("include"),
            out,
        };
        if workshop.kernels.exists() {
            std::fs::remove_dir_all(&workshop.kernels)?;
        }
        folder::copy(&root.join("crates/cuda/kernels"), &workshop.kernels)?;
        let (ours, common) = (
            workshop.emulator.join("common"),
            workshop.kernels.join("common"),
        );
        for name in folder::names(&ours)? {
            if !common.join(&name).exists() {
                bail!(
                    "emulator/common/{} takes the place of no header of kernels/common",
                    name.display()
                );
            }
        }
        folder::copy(&ours, &common)?;
        Ok(workshop)
    }

    fn compile(&self, source: &Path, more: &[&str], name: &str) -> anyhow::Result<PathBuf> {
        let made = self.out.join(name);
        let output = Command::new(COMPILER)
            .args(FLAGS)
            .args(more)
            .arg("-I")
            .arg(&self.emulator)
            .arg("-I")
            .arg(&self.kernels)
            // Not ours: nothing to warn of.
            .arg("-isystem")
            .arg(&self.headers)
            .arg(source)
            .args((!more.contains(&"-c")).then(|| self.out.join("machine.o")))
            .arg("-o")
            .arg(&made)
            .output()
            .with_context(|| format!("emulate needs a C++20 compiler called {COMPILER}"))?;
        if !output.status.success() {
            bail!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(made)
    }

    fn test(&self, source: &Path) -> anyhow::Result<()> {
        let name = source.file_stem().unwrap_or_default().to_string_lossy();
        let program = self.compile(source, &[], &name)?;
        let output = Command::new(program)
            .output()
            .with_context(|| format!("cannot run {name}"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        println!("{name}\n{}", said.trim_end());
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            bail!("{name} is wrong ({}) {}", output.status, why.trim());
        }
        Ok(())
    }
}

/// The tests, in order.
fn programs(tests: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    folder::list(tests, &mut files)?;
    files.retain(|path| path.extension().is_some_and(|e| e == "cc"));
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_laid_over_those_of_the_same_name_only() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("crates/cuda/kernels/megakernel.cu", "kernel");
        write("crates/cuda/kernels/common/copy.cuh", "of the GPU");
        write("crates/cuda/emulator/common/copy.cuh", "of the host");
        let workshop = Workshop::new(root.path(), Path::new("toolkit")).unwrap();
        let laid = |name| std::fs::read_to_string(workshop.kernels.join(name)).unwrap();
        assert_eq!(laid("megakernel.cu"), "kernel");
        assert_eq!(laid("common/copy.cuh"), "of the host");

        write("crates/cuda/emulator/common/other.cuh", "");
        let refused = Workshop::new(root.path(), Path::new("toolkit")).err();
        let said = refused.expect("it replaces nothing").to_string();
        assert!(said.contains("other.cuh"), "{said}");
    }
}
