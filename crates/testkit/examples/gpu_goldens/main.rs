//! Tiny models on the GPU against what the reference library computed for them: logits within what bf16 allows, and
//! greedy tokens wherever the reference is sure; and whole steps of them, replayed and kernel by kernel, to the bit. Or a large
//! checkpoint that nobody trained, to see how it is loaded.
//!
//! `gpu_goldens FOLDER [--logits FOLDER] [--ampere] [--libraries FOLDER]…`; the folder is `crates/models/tests/goldens` or a copy of it.
//! Logits go to files of plain f32 numbers, one a model, for `same_gpu.py` to compare. With `--ampere` kernels are used that need none of
//! Hopper's instructions.
//! `gpu_goldens --loading FOLDER [--libraries FOLDER]…`; the folder is made, filled with five gigabytes and removed.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for people"
)]

mod files;
mod loading;
mod replayed;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use cuda::{CudaDevice, CudaOptions, Generation};
use testkit::golden::{Golden, best, distance};
use testkit::runner::Runner;

const ROWS: usize = 2;
/// Relative distance of logits that sums of bf16 may have; the mean over positions counts.
const MEAN: f64 = 0.02;
/// A token is judged when the reference prefers it by this share of the logits' size.
const SURE: f32 = 0.1;

/// What was found for one model.
struct Verdict {
    /// Of every position.
    logits: Vec<Vec<f32>>,
    mean: f64,
    worst: f64,
    judged: usize,
    wrong: usize,
}

fn check(device: &CudaDevice, golden: &Golden) -> Verdict {
    let mut runner = Runner::load(device, &golden.model, ROWS);
    let (prompt, chosen) = golden.tokens.split_at(golden.prompt_length);
    let (first, rest) = prompt.split_at(prompt.len() / 3);
    let mut logits = runner.step(&[(1, first)]);
    // The other sequence is a witness: it must disturb nothing.
    let mixed = runner.step(&[(0, rest), (1, rest)]);
    logits.extend_from_slice(&mixed[rest.len()..]);
    for token in chosen {
        logits.extend(runner.step(&[(1, &[*token])]));
    }
    // Again, where nothing is wanted of the first chunk and one token of the second.
    let mut runner = Runner::load(device, &golden.model, ROWS);
    runner.step_for(&[(1, first)], &[]);
    let last = runner.step_for(&[(0, rest), (1, rest)], &[2 * rest.len() as u32 - 1]);
    let expected = &golden.logits;
    let pairs = logits.iter().zip(expected);
    let pairs = pairs.chain(last.iter().zip(&expected[golden.prompt_length - 1..]));
    let (mut mean, mut worst, mut judged, mut wrong) = (0.0, 0.0f64, 0, 0);
    for (found, expected) in pairs {
        let distance = distance(found, expected);
        mean += distance / (golden.logits.len() + 1) as f64;
        worst = worst.max(distance);
        let (token, lead) = best(expected);
        let size = (expected.iter().map(|x| x * x).sum::<f32>() / expected.len() as f32).sqrt();
        if lead > SURE * size {
            judged += 1;
            wrong += usize::from(best(found).0 != token);
        }
    }
    Verdict {
        logits,
        mean,
        worst,
        judged,
        wrong,
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let mut words = std::env::args().skip(1);
    let mut folder = None;
    let mut library_folders = Vec::new();
    let mut loading = false;
    let mut logits = None;
    let mut generation = None;
    while let Some(word) = words.next() {
        if word == "--libraries" {
            library_folders.extend(words.next().map(PathBuf::from));
        } else if word == "--logits" {
            logits = words.next().map(PathBuf::from);
        } else if word == "--ampere" {
            generation = Some(Generation::Ampere);
        } else if word == "--loading" {
            loading = true;
        } else {
            folder = Some(PathBuf::from(word));
        }
    }
    let Some(folder) = folder else {
        anyhow::bail!(
            "usage: gpu_goldens [--loading] FOLDER [--logits FOLDER] [--ampere] [--libraries FOLDER]…"
        )
    };
    let options = CudaOptions {
        library_folders,
        max_step_tokens: 64,
        untried: true,
        generation,
        ..CudaOptions::default()
    };
    let device = match cuda::open(&options) {
        Ok(device) => device,
        Err(absent) => {
            eprintln!("skipped: {absent}");
            return Ok(ExitCode::from(3));
        }
    };
    let well = if loading {
        loading::run(device, &folder)?
    } else {
        let same = compare(&device, &folder, logits.as_deref())?;
        same & replay(&Arc::new(device), &folder)
    };
    Ok(if well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Serves all models of a folder, with graphs and without; true when both give the same.
fn replay(device: &Arc<CudaDevice>, folder: &Path) -> bool {
    let mut well = true;
    for golden in Golden::in_folder(folder) {
        let (same, tokens) = replayed::check(device, &golden);
        let word = if same { "passed" } else { "FAILED" };
        println!(
            "{:24} {word}: {tokens} tokens replayed, and their log-probabilities",
            golden.name
        );
        well &= same;
    }
    well
}

/// Checks all models of a folder, and writes their logits where they are wanted; true when all is well.
fn compare(device: &CudaDevice, folder: &Path, wanted: Option<&Path>) -> anyhow::Result<bool> {
    let mut well = true;
    if let Some(wanted) = wanted {
        std::fs::create_dir_all(wanted)?;
    }
    for golden in Golden::in_folder(folder) {
        let Verdict {
            logits,
            mean,
            worst,
            judged,
            wrong,
        } = check(device, &golden);
        let passed = mean < MEAN && wrong == 0;
        let word = if passed { "passed" } else { "FAILED" };
        let positions = golden.logits.len();
        println!(
            "{:24} {word}: logits off by {mean:.1e} on average, {worst:.1e} at most; {wrong} of {judged} sure tokens differ ({positions} positions)",
            golden.name
        );
        well &= passed;
        if let Some(wanted) = wanted {
            let bytes: Vec<u8> = logits
                .iter()
                .flatten()
                .flat_map(|x| x.to_le_bytes())
                .collect();
            std::fs::write(wanted.join(format!("{}.f32", golden.name)), bytes)?;
        }
    }
    Ok(well)
}
