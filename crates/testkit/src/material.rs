//! Real material for tests: used where it is, never required.

use std::path::PathBuf;

/// The folder of the workspace.
pub fn workspace() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of the shared folder beside the checkout, if it is there; says so when it is not.
pub fn shared(path: &str) -> Option<PathBuf> {
    existing(workspace().join("../shared").join(path))
}

/// The default model, if `.ci/run` or a developer has put it under `target/models`.
pub fn smollm2() -> Option<PathBuf> {
    existing(workspace().join("target/models/SmolLM2-135M-Instruct.Q4_1.gguf"))
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn existing(path: PathBuf) -> Option<PathBuf> {
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: there is no {}", path.display());
    None
}
