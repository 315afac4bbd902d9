//! llama.cpp, built from the source package of llama-cpp-python for exactly this processor.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::load::{CAPACITY, CONCURRENT, Contender, PROMPT, TOKENS_OUT};
use super::python;
use super::results::Measure;

const PACKAGE: &str = "llama-cpp-python";
const VERSION: &str = "0.3.36";
/// What the peer is built with: optimised for this machine, without what it does not need to serve.
const OPTIONS: &[&str] = &[
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DGGML_NATIVE=ON",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_APP=OFF",
];
/// Repetitions of its own tool a run; it reports their mean.
const REPETITIONS: &str = "3";

/// Builds it when it is not there and says how to serve and measure the model with it.
pub(crate) fn prepare(
    folder: &Path,
    model: &Path,
    threads: usize,
    jobs: usize,
) -> anyhow::Result<Contender> {
    let programs = build(folder, jobs)?;
    let (tool, server) = (programs.join("llama-bench"), programs.join("llama-server"));
    let (tool_model, model) = (model.to_owned(), model.to_owned());
    Ok(Contender {
        name: "llama-cpp",
        version: format!("llama.cpp of {PACKAGE} {VERSION}, {}", OPTIONS.join(" ")),
        serve: Box::new(move |port| {
            let mut command = Command::new(&server);
            command.arg("--model").arg(&model);
            command.args([
                "--host",
                "127.0.0.1",
                "--no-cache-prompt",
                "--no-kv-unified",
            ]);
            for (flag, number) in [
                ("--port", port as usize),
                ("--threads", threads),
                ("--threads-batch", threads),
                ("--parallel", CONCURRENT),
                ("--ctx-size", CAPACITY),
                ("--cache-ram", 0),
            ] {
                command.arg(flag).arg(number.to_string());
            }
            command
        }),
        tool: Some(Box::new(move |measure| {
            own_figure(&tool, &tool_model, threads, measure)
        })),
    })
}

/// The folder of its programs.
fn build(folder: &Path, jobs: usize) -> anyhow::Result<PathBuf> {
    let home = folder.join("llama-cpp");
    let source = home.join(format!("source-{VERSION}"));
    let build = home.join(format!("build-{VERSION}"));
    let programs = build.join("bin");
    if programs.join("llama-server").exists() && programs.join("llama-bench").exists() {
        return Ok(programs);
    }
    if !source.exists() {
        fetch(folder, &home, &source)?;
    }
    println!("building llama.cpp; this takes some minutes");
    let python = python::programs(folder)?;
    if !python.join("cmake").exists() || !python.join("ninja").exists() {
        let mut pip = Command::new(python.join("pip"));
        python::run(pip.args(["install", "--quiet", "cmake", "ninja"]))?;
    }
    let cmake = python.join("cmake");
    let ninja = format!("-DCMAKE_MAKE_PROGRAM={}", python.join("ninja").display());
    let mut configure = Command::new(&cmake);
    configure.arg("-S").arg(source.join("vendor/llama.cpp"));
    configure
        .arg("-B")
        .arg(&build)
        .args(["-G", "Ninja", &ninja]);
    let log = |name: &str| folder.join("log").join(format!("llama-cpp-{name}.log"));
    python::run_logged(configure.args(OPTIONS), &log("configure"))?;
    let mut compile = Command::new(&cmake);
    compile.arg("--build").arg(&build);
    compile.args(["--target", "llama-bench", "llama-server"]);
    let compile = compile.args(["--parallel", &jobs.to_string()]);
    python::run_logged(compile, &log("build"))?;
    Ok(programs)
}

/// Unpacks the source package; the folder appears whole or not at all.
fn fetch(folder: &Path, home: &Path, source: &Path) -> anyhow::Result<()> {
    let options = ["--no-binary", PACKAGE];
    let downloads = python::download(folder, &format!("{PACKAGE}=={VERSION}"), &options)?;
    let name = format!("{}-{VERSION}", PACKAGE.replace('-', "_"));
    fs::create_dir_all(home).context("cannot create a folder for the peer")?;
    let mut unpack = Command::new("tar");
    unpack
        .arg("-xzf")
        .arg(downloads.join(format!("{name}.tar.gz")));
    python::run(unpack.arg("-C").arg(home))?;
    fs::rename(home.join(name), source).context("the source package is not as expected")
}

#[derive(Deserialize)]
struct Figure {
    avg_ts: f64,
}

/// Tokens a second as its own tool sees them.
fn own_figure(tool: &Path, model: &Path, threads: usize, measure: Measure) -> anyhow::Result<f64> {
    let (prompt, generated) = match measure {
        Measure::Prompt => (PROMPT, 0),
        _ => (0, TOKENS_OUT),
    };
    let output = Command::new(tool)
        .arg("-m")
        .arg(model)
        .args(["-t", &threads.to_string()])
        .args(["-p", &prompt.to_string(), "-n", &generated.to_string()])
        .args(["-r", REPETITIONS, "-o", "json"])
        .output()
        .context("cannot run llama-bench")?;
    ensure!(
        output.status.success(),
        "llama-bench failed: {}",
        output.status
    );
    figure(&output.stdout)
}

fn figure(json: &[u8]) -> anyhow::Result<f64> {
    let figures: Vec<Figure> =
        serde_json::from_slice(json).context("llama-bench printed something unexpected")?;
    let first = figures.first().context("llama-bench measured nothing")?;
    Ok(first.avg_ts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_figure_is_its_mean() {
        let json =
            br#"[{"build_commit": "x", "n_prompt": 512, "avg_ts": 201.5, "stddev_ts": 3.0}]"#;
        assert!((figure(json).unwrap() - 201.5).abs() < 1e-9);
        assert!(figure(b"[]").is_err());
    }
}
