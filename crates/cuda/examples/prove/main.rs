//! Proves the GPU ops on a machine with a GPU: against their references, and against what the hardware could do.
//!
//! `prove [--libraries FOLDER]… [--own-gemms | --library-gemms] [--in-turn] [--narrow] [--bf12] [--ampere] PART…`, parts as
//! listed in [`PARTS`]. Every part prints a table; the exit code is zero when nothing was wrong. With `--narrow` the device is opened
//! as for a server that keeps keys and values of one byte, and `cache-conformance` compares what writes and reads them with
//! the references. With `--ampere` it is opened with the kernels for GPUs that lack Hopper's instructions.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for people"
)]

mod argmax;
mod attention;
mod bench;
mod bf12;
mod candidates;
mod collectives;
mod conformance;
mod decode;
mod firsts;
mod float8;
mod gemms;
mod graphs;
mod handed;
mod layers;
mod narrow;
mod profile;
mod sanitize;
mod small;
mod trace;

use std::path::PathBuf;
use std::process::ExitCode;

use cuda::{CudaDevice, CudaOptions, GemmChoice, Generation, KvPrecision};
use ops::Device as _;

/// True when all is well.
type Part = fn(&CudaDevice) -> bool;

const PARTS: [(&str, Part); 32] = [
    ("conformance", conformance::run),
    ("cache-conformance", conformance::cache),
    ("split-k", conformance::split_k),
    ("invariance", conformance::invariance),
    ("attention-conformance", attention::check),
    ("narrow", narrow::run),
    ("graphs", graphs::run),
    ("collectives", collectives::run),
    ("collective-rank", collectives::rank),
    ("small", small::run),
    ("gemms", gemms::run),
    ("firsts", firsts::run),
    ("fp8-conformance", float8::check),
    ("fp8", float8::run),
    ("bf12", bf12::run),
    ("attention", attention::time),
    ("decode", decode::run),
    ("sanitize", sanitize::run),
    ("sanitize-fp8", sanitize::narrow_gemms),
    ("sanitize-bf12", sanitize::bf12_gemms),
    ("layers", layers::run),
    ("mix", layers::mix),
    ("sustained", layers::sustained),
    ("few", layers::few),
    ("prompts", layers::prompts),
    ("fp8-layers", layers::narrow),
    ("kernels", layers::kernels),
    ("fp8-kernels", layers::narrow_kernels),
    ("candidates", candidates::run),
    ("gates", candidates::gates),
    ("heads", argmax::heads),
    ("profile", profile::run),
];

/// Parts of bf12 weights and of weights of one byte, which kernels of Hopper alone read.
const OF_HOPPER: [&str; 9] = [
    "fp8-conformance",
    "fp8",
    "bf12",
    "sanitize-fp8",
    "sanitize-bf12",
    "fp8-layers",
    "fp8-kernels",
    "gates",
    "heads",
];

/// Rows that GEMMs are autotuned for. Fewer rows have fewer candidates: a tool that watches every access takes its time.
fn step_tokens(parts: &[(&str, Part)]) -> usize {
    let any = |names: &[&str]| parts.iter().any(|part| names.contains(&part.0));
    if any(&["sanitize", "sanitize-fp8", "sanitize-bf12", "few"]) {
        8
    } else if any(&["prompts"]) {
        8192
    } else if any(&["fp8-layers", "fp8-kernels", "gates", "mix", "sustained"]) {
        256
    } else {
        2048
    }
}

fn main() -> ExitCode {
    let mut folders = Vec::new();
    let mut gemms = GemmChoice::Fastest;
    let mut in_turn = false;
    let mut generation = None;
    let mut kv = KvPrecision::BF16;
    let mut parts: Vec<(&str, Part)> = Vec::new();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--libraries" {
            folders.extend(words.next().map(PathBuf::from));
        } else if word == "--in-turn" {
            in_turn = true;
        } else if word == "--ampere" {
            generation = Some(Generation::Ampere);
        } else if word == "--bf12" {
            bench::encode_weights();
        } else if word == "--narrow" {
            kv = KvPrecision::F8E4M3;
        } else if word == "--own-gemms" {
            gemms = GemmChoice::Own;
        } else if word == "--library-gemms" {
            gemms = GemmChoice::Library;
        } else if let Some(part) = PARTS.iter().find(|(name, _)| *name == word) {
            parts.push(*part);
        } else {
            let names: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
            eprintln!("no part {word}; there are {}", names.join(", "));
            return ExitCode::from(2);
        }
    }
    let options = CudaOptions {
        library_folders: folders,
        max_step_tokens: step_tokens(&parts),
        gemms,
        in_turn,
        kv,
        untried: true,
        generation,
    };
    let device = match cuda::open(&options) {
        Ok(device) => device,
        Err(absent) => {
            eprintln!("skipped: {absent}");
            return ExitCode::from(3);
        }
    };
    let mut well = true;
    for (name, part) in parts {
        println!("== {name}");
        if OF_HOPPER.contains(&name) && !device.info().float8 {
            println!("== {name} left out: no kernels of this generation\n");
            continue;
        }
        let began = std::time::Instant::now();
        let passed = part(&device);
        let word = if passed { "passed" } else { "FAILED" };
        println!("== {name} {word}, {:.1} s\n", began.elapsed().as_secs_f64());
        well &= passed;
    }
    if well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
