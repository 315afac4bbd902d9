//! Compiles the GPU kernels ahead of time: every `crates/cuda/kernels/*.cu` to a file in
//! `target/kernels`, which the build of `cuda` embeds. Needs no GPU and no driver.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};
use sha2::{Digest as _, Sha256};

use crate::{code_size, folder, workers};

/// The compiler, as Python packages: each of the five is needed.
const PACKAGES: [&str; 5] = [
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cccl==13.0.85",
];
/// Names them; written last, so that a broken installation is made again.
const STAMP: &str = "packages.txt";
/// Where the packages put the toolkit.
const INSIDE: &str = "nvidia/cu13";
const FLAGS: [&str; 4] = ["-std=c++17", "-O3", "--Werror=all-warnings", "-fatbin"];
/// The architecture that kernels are made for first of all.
const HOPPER: &str = "-gencode=arch=compute_90a,code=sm_90a";
/// Other cards, whose kernels need none of Hopper's instructions.
const OTHERS: [&str; 2] = [
    "-gencode=arch=compute_80,code=sm_80",
    "-gencode=arch=compute_89,code=sm_89",
];
/// What the driver of any other card compiles.
const TEXT: &str = "-gencode=arch=compute_80,code=compute_80";
/// What the compiled file of a kernel that is made for Hopper alone is called behind its name; `crates/cuda` looks for it.
const FOR_HOPPER: &str = ".hopper";
/// Headers whose instructions only Hopper has, and one for kernels that are launched there alone.
const HOPPER_ONLY: [&str; 3] = ["common/wgmma.cuh", "common/tma.cuh", "common/hopper.cuh"];

/// What kernels become that need none of Hopper's instructions.
#[derive(Clone, Copy)]
pub(crate) enum Code {
    /// Code for every card, and text.
    All,
    /// Text alone: any card runs what the newest ones get.
    Text,
}

impl Code {
    /// What a kernel is made for.
    fn architectures(self, hopper_only: bool) -> Vec<&'static str> {
        match self {
            _ if hopper_only => vec![HOPPER],
            Self::All => [&[HOPPER], &OTHERS[..], &[TEXT]].concat(),
            Self::Text => vec![TEXT],
        }
    }
}

/// Compiles what has changed since the last time.
pub(crate) fn run(root: &Path, code: Code) -> anyhow::Result<ExitCode> {
    let sources = root.join("crates/cuda/kernels");
    let out = root.join("target/kernels");
    std::fs::create_dir_all(&out).context("cannot create target/kernels")?;
    let toolkit = toolkit(root)?;
    let kernels = Kernel::all(&sources, &out, code)?;
    remove_leftovers(&out, &kernels)?;
    let stale: Vec<&Kernel> = kernels.iter().filter(|kernel| !kernel.is_fresh()).collect();
    println!("{} kernel files, {} to compile", kernels.len(), stale.len());
    workers::for_each(&stale, |kernel| {
        match kernel.compile(&toolkit)? {
            Some((longest, bytes)) => {
                println!("  {}: {longest} has {bytes} bytes of code", kernel.name);
            }
            None => println!("  {}: text", kernel.name),
        }
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// One source file and where it goes.
struct Kernel {
    name: String,
    source: PathBuf,
    compiled: PathBuf,
    stamp: PathBuf,
    /// Of the source, all headers it may include, and how it is compiled.
    hash: String,
    architectures: Vec<&'static str>,
}

impl Kernel {
    fn all(sources: &Path, out: &Path, code: Code) -> anyhow::Result<Vec<Self>> {
        let mut files = Vec::new();
        folder::list(sources, &mut files)?;
        files.sort();
        let headers = files
            .iter()
            .filter(|path| path.extension().is_some_and(|e| e == "cuh"));
        let mut common = Sha256::new();
        for header in headers {
            common.update(header.to_string_lossy().as_bytes());
            common.update(std::fs::read(header)?);
        }
        for word in PACKAGES.iter().chain(&FLAGS) {
            common.update(word);
        }
        let units = files
            .iter()
            .filter(|path| path.extension().is_some_and(|e| e == "cu"));
        units
            .map(|source| Self::new(source, out, common.clone(), (sources, code)))
            .collect()
    }

    fn new(
        source: &Path,
        out: &Path,
        mut hash: Sha256,
        (sources, code): (&Path, Code),
    ) -> anyhow::Result<Self> {
        let name = source
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let text = std::fs::read_to_string(source)?;
        hash.update(&text);
        let hopper_only = includes(source, &text, sources)?
            .iter()
            .any(|header| HOPPER_ONLY.iter().any(|only| header.ends_with(only)));
        let kind = if hopper_only { FOR_HOPPER } else { "" };
        let architectures = code.architectures(hopper_only);
        for architecture in &architectures {
            hash.update(architecture);
        }
        Ok(Self {
            compiled: out.join(format!("{name}{kind}.fatbin")),
            stamp: out.join(format!("{name}{kind}.sha256")),
            source: source.to_owned(),
            hash: format!("{:x?}", hash.finalize().as_slice()),
            architectures,
            name,
        })
    }

    /// What was compiled is what the compiler made of these sources: nobody put another file in its place.
    fn is_fresh(&self) -> bool {
        let stamp = std::fs::read_to_string(&self.stamp).unwrap_or_default();
        self.stamp_now().is_ok_and(|now| now == stamp)
    }

    /// Of the sources and of what is in the place of the compiled file.
    fn stamp_now(&self) -> std::io::Result<String> {
        let made = Sha256::digest(std::fs::read(&self.compiled)?);
        Ok(format!("{}\n{:x?}", self.hash, made.as_slice()))
    }

    /// Says which of its kernels has the most code on Hopper, where it has any.
    fn compile(&self, toolkit: &Path) -> anyhow::Result<Option<(String, usize)>> {
        // Beside its place first: a compiler that is stopped leaves nothing that looks whole.
        let unfinished = self.compiled.with_extension("unfinished");
        // What the compiler makes on its way, among it the code for Hopper by itself.
        let parts = tempfile::tempdir().context("cannot create a folder for the compiler")?;
        let mut command = Command::new(toolkit.join("bin/nvcc"));
        command.args(FLAGS).args(&self.architectures);
        command.arg("--keep").arg("--keep-dir").arg(parts.path());
        let output = command
            .arg(&self.source)
            .arg("-o")
            .arg(&unfinished)
            .output()
            .with_context(|| format!("cannot run nvcc of {}", toolkit.display()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        // The compiler only mentions what makes products of warpgroups several times slower.
        if !output.status.success() || said.contains("are serialized") {
            bail!("{}: {}", self.name, said.trim());
        }
        let has_code = self.architectures.contains(&HOPPER);
        let longest = has_code.then(|| longest_code(parts.path())).transpose()?;
        std::fs::rename(&unfinished, &self.compiled)?;
        std::fs::write(&self.stamp, self.stamp_now()?)?;
        Ok(longest)
    }
}

/// The kernel for Hopper that has the most code, of those that the compiler left in a folder; none may have too much.
fn longest_code(parts: &Path) -> anyhow::Result<(String, usize)> {
    let mut all = Vec::new();
    for file in folder::names(parts)? {
        let name = file.to_string_lossy();
        // Of several cards each has its own.
        if file.extension().is_some_and(|e| e == "cubin") && !name.contains(".sm_8") {
            all.extend(code_size::check(&name, &std::fs::read(parts.join(&file))?)?);
        }
    }
    all.into_iter()
        .max_by_key(|(_, bytes)| *bytes)
        .context("the compiler left no code for Hopper")
}

/// All headers that a file includes, directly or not.
fn includes(file: &Path, text: &str, sources: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let folder = file.parent().unwrap_or(sources);
    let mut found = Vec::new();
    for line in text.lines() {
        let Some(name) = line
            .strip_prefix("#include \"")
            .and_then(|l| l.strip_suffix('"'))
        else {
            continue;
        };
        let header = folder
            .join(name)
            .canonicalize()
            .with_context(|| format!("{} includes {name}, which is not there", file.display()))?;
        let inner = includes(&header, &std::fs::read_to_string(&header)?, sources)?;
        found.push(header);
        found.extend(inner);
    }
    Ok(found)
}

/// A kernel that was removed must not be embedded any longer.
fn remove_leftovers(out: &Path, kernels: &[Kernel]) -> anyhow::Result<()> {
    for entry in out.read_dir()? {
        let path = entry?.path();
        if !kernels
            .iter()
            .any(|kernel| path == kernel.compiled || path == kernel.stamp)
        {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Where CUDA's compiler is: where it was [found], or the pinned packages, brought under `target`.
fn toolkit(root: &Path) -> anyhow::Result<PathBuf> {
    if let Some(toolkit) = found(root) {
        return Ok(toolkit);
    }
    let folder = root.join("target/cuda-toolkit");
    let wanted = PACKAGES.join("\n");
    println!("bringing CUDA's compiler to target/cuda-toolkit");
    let status = Command::new("python3")
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--upgrade",
            "--target",
        ])
        .arg(&folder)
        .args(PACKAGES)
        .status()
        .context("cannot run python3 -m pip")?;
    if !status.success() {
        bail!(
            "pip could not install {}; set CUDA_HOME to a CUDA 13 toolkit",
            PACKAGES.join(" ")
        );
    }
    std::fs::write(folder.join(STAMP), wanted)?;
    Ok(folder.join(INSIDE))
}

/// The toolkit that is there: `CUDA_HOME`, or the packages under `target`.
pub(crate) fn found(root: &Path) -> Option<PathBuf> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the usual name of the toolkit's folder"
    )]
    let given = std::env::var_os("CUDA_HOME").map(PathBuf::from);
    if let Some(given) = given.filter(|given| given.join("bin/nvcc").exists()) {
        return Some(given);
    }
    let folder = root.join("target/cuda-toolkit");
    let brought = std::fs::read_to_string(folder.join(STAMP)).ok()?;
    (brought == PACKAGES.join("\n")).then(|| folder.join(INSIDE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_put_in_the_place_of_a_compiled_one_is_compiled_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let kernel = |text: &str| {
            let source = folder.path().join("one.cu");
            std::fs::write(&source, text).expect("writable");
            let hash = Sha256::new();
            Kernel::new(&source, folder.path(), hash, (folder.path(), Code::All))
                .expect("a readable source")
        };
        let one = kernel("one");
        assert!(!one.is_fresh(), "never compiled");
        let compile = |bytes: &str| std::fs::write(&one.compiled, bytes).expect("writable");
        compile("code");
        std::fs::write(&one.stamp, one.stamp_now().expect("readable")).expect("writable");
        assert!(one.is_fresh());
        compile("other code");
        assert!(!one.is_fresh(), "somebody else's");
        compile("code");
        assert!(!kernel("another").is_fresh(), "another source");
        assert!(kernel("one").is_fresh());
    }
}
