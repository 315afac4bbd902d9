//! `fuzz`: everything that reads bytes of others, on damaged ones, for as long as one likes.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};

const USAGE: &str = "usage: cargo xtask fuzz [TARGET...] [--seconds N | --mutants N] [--seed N] [--processes N]
       cargo xtask fuzz TARGET --only NUMBER [--seed N]
       cargo xtask fuzz TARGET --coverage [--seconds N]

Without --coverage mutants of fuzz/corpus run on stable Rust, 20 s a target, and are the same every time. --coverage
searches with libFuzzer; it needs a nightly toolchain and cargo-fuzz.";

/// Runs the driver, or libFuzzer where coverage is asked for.
pub(crate) fn run(root: &Path, words: &[String]) -> anyhow::Result<ExitCode> {
    let mut command = command(words)?;
    command.current_dir(root);
    let status = command.status().context("cannot run cargo")?;
    if !status.success() {
        bail!("fuzzing found something, or could not run ({status})");
    }
    Ok(ExitCode::SUCCESS)
}

fn command(words: &[String]) -> anyhow::Result<Command> {
    if words.iter().any(|word| word == "--help") {
        bail!(USAGE);
    }
    let mut command = Command::new("cargo");
    let Some(rest) = without(words, "--coverage") else {
        // Of a workspace of its own; what the main one has built already is not built again.
        command.args(["run", "--quiet", "--manifest-path"]);
        command.args(["fuzz/Cargo.toml", "--package", "fuzz-targets"]);
        command.args(["--target-dir", "target", "--"]).args(words);
        return Ok(command);
    };
    let (target, seconds) = match rest.as_slice() {
        [target] => (target, "20"),
        [target, flag, seconds] if *flag == "--seconds" => (target, *seconds),
        _ => bail!(USAGE),
    };
    command.args([
        "+nightly",
        "fuzz",
        "run",
        "--target-dir",
        "target/fuzz",
        target,
        "--",
    ]);
    // The memory that a mutant gets from the driver, and the time.
    command.args(["-rss_limit_mb=1024", "-timeout=5"]);
    command.arg(format!("-max_total_time={seconds}"));
    Ok(command)
}

/// The other words, where one of them is this.
fn without<'a>(words: &'a [String], flag: &str) -> Option<Vec<&'a str>> {
    let others: Vec<&str> = words
        .iter()
        .map(String::as_str)
        .filter(|word| *word != flag)
        .collect();
    (others.len() < words.len()).then_some(others)
}

#[cfg(test)]
mod tests {
    use super::command;

    fn line(words: &str) -> String {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let command = command(&words).map(|command| format!("{command:?}").replace('"', ""));
        command.unwrap_or_else(|error| error.to_string())
    }

    #[test]
    fn words_go_to_the_driver_unless_coverage_is_asked_for() {
        let driver = line("gguf sse --mutants 5");
        assert!(
            driver.ends_with("--target-dir target -- gguf sse --mutants 5"),
            "{driver}"
        );
        let search = line("gguf --coverage --seconds 7");
        assert!(search.starts_with("cargo +nightly fuzz run"), "{search}");
        assert!(
            search.ends_with("gguf -- -rss_limit_mb=1024 -timeout=5 -max_total_time=7"),
            "{search}"
        );
        for wrong in ["--coverage", "--coverage gguf sse", "--help"] {
            assert!(line(wrong).starts_with("usage: "), "{wrong}");
        }
    }
}
