//! Us against another server: same machine, same model file, same threads, taking turns.

mod bandwidth;
mod bench_serving;
mod client;
mod floor;
mod idle;
mod llama_cpp;
mod load;
mod machine;
mod model;
mod ours;
mod python;
mod report;
mod results;
mod server;
mod settings;
mod table;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use flags::FlagError;

use load::Contender;
use results::Results;
use settings::{COMMAND, Settings};

/// Prepares both sides, lets them take turns, prints the table and writes it down.
pub(crate) fn run(root: &Path, words: &[String]) -> anyhow::Result<ExitCode> {
    if words.first().is_some_and(|word| word == "bench-serving") {
        return bench_serving::run(root);
    }
    let settings = match Settings::parse(words) {
        Ok(settings) => settings,
        Err(FlagError::HelpAsked) => {
            println!("{}", COMMAND.help());
            return Ok(ExitCode::SUCCESS);
        }
        Err(error) => bail!("{error}\n{}", COMMAND.usage()),
    };
    let folder = root.join("target/versus");
    std::fs::create_dir_all(folder.join("log")).context("cannot create target/versus")?;
    let model = match &settings.model {
        Some(path) => path
            .canonicalize()
            .with_context(|| format!("cannot open {}", path.display()))?,
        None => model::obtain(&folder)?,
    };
    let contenders = prepare(root, &folder, &model, &settings)?;
    idle::wait(settings.patience)?;
    let speed_before = bandwidth::read(settings.threads);
    let results = measure(&contenders, &settings, &folder)?;
    let speed = bandwidth::read(settings.threads).max(speed_before);
    let floor = floor::of(&model, speed, settings.threads)?;
    let facts = machine::facts(root, settings.threads, &model, speed)?;
    let section = report::section(&results, &contenders, floor.as_ref(), &facts);
    println!("\n{section}");
    if contenders.len() == 2 {
        report::write(&root.join("docs/performance.md"), "llama-cpp", &section)?;
        println!("written to docs/performance.md");
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds the sides that are to be measured.
fn prepare(
    root: &Path,
    folder: &Path,
    model: &Path,
    settings: &Settings,
) -> anyhow::Result<Vec<Contender>> {
    let wanted = |name: &str| settings.only.as_deref().is_none_or(|only| only == name);
    let mut contenders = Vec::new();
    if wanted("ours") {
        let binary = settings.binary.as_deref();
        contenders.push(ours::prepare(root, binary, model, settings.threads)?);
    }
    if wanted("llama-cpp") {
        let peer = llama_cpp::prepare(folder, model, settings.threads, settings.jobs)?;
        contenders.push(peer);
    }
    Ok(contenders)
}

/// All runs; whoever was second in one run is first in the next.
fn measure(
    contenders: &[Contender],
    settings: &Settings,
    folder: &Path,
) -> anyhow::Result<Results> {
    let mut results = Results::default();
    for run in 0..settings.runs {
        let mut order: Vec<&Contender> = contenders.iter().collect();
        if run % 2 == 1 {
            order.reverse();
        }
        for contender in order {
            println!("run {} of {}: {}", run + 1, settings.runs, contender.name);
            let log = folder.join("log").join(format!("{}.log", contender.name));
            load::run(contender, run, settings.patience, &log, &mut results)
                .with_context(|| format!("{}; its log is {}", contender.name, log.display()))?;
        }
    }
    Ok(results)
}
