//! Checks and chores of the repository: `cargo xtask tidy` looks whether the tree keeps the rules of
//! the house, `fuzz` gives its readers damaged bytes, `kernels` compiles those of the GPU, `emulate`
//! tests them without one, `gpu` prepares a run on one, and `versus` measures us against other servers
//! on this machine. Nothing here is part of the product, and no crate may depend on it.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to the terminal"
)]

mod code_size;
mod emulate;
mod folder;
mod fuzz;
mod gpu;
mod kernels;
mod tidy;
mod versus;
mod workers;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kernels::Code;

const USAGE: &str = "usage: cargo xtask COMMAND

commands:
  kernels             compile the GPU kernels into target/kernels
  emulate             run GPU kernels on the host beside loops in double precision
  fuzz [TARGET...]    run everything that reads bytes of others on damaged ones; --help says more
  gpu [--as-text]     build what a machine with a GPU is to run, into the folder carry; with kernels as
                      cards newer than Hopper get them, which their driver compiles
  tidy                compare the tree with the rules of the house
  versus llama-cpp    measure this build against llama.cpp on this machine
  versus bench-serving
                      measure what our benchmark client costs against the Python ones";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let result = match words.first().map(String::as_str) {
        Some("kernels") => kernels::run(&root(), Code::All),
        Some("emulate") => emulate::run(&root()),
        Some("fuzz") => fuzz::run(&root(), &words[1..]),
        Some("gpu") => match &words[1..] {
            [] => gpu::run(&root(), Code::All),
            [word] if word == "--as-text" => gpu::run(&root(), Code::Text),
            _ => Err(anyhow::anyhow!(USAGE)),
        },
        Some("tidy") => tidy::run(&root()),
        Some("versus") => versus::run(&root(), &words[1..]),
        _ => Err(anyhow::anyhow!(USAGE)),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}

/// The root of the repository, which holds this crate.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask lies in the root").to_owned()
}
