//! What is measured: one stream, a long prompt, many streams at once, and the memory after it.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::Context as _;

use super::client::{Completion, complete};
use super::idle::{self, QUIET, Watch};
use super::results::{Measure, Results, Sample, Way, median};
use super::server::Server;

/// Streams of the concurrent load, and the tokens each has.
pub(crate) const CONCURRENT: usize = 16;
pub(crate) const TOKENS_IN: usize = 128;
pub(crate) const TOKENS_OUT: usize = 128;
/// Tokens of the long prompt.
pub(crate) const PROMPT: usize = 512;
/// Tokens either server may keep keys and values for: room for the long prompt in every stream.
pub(crate) const CAPACITY: usize = CONCURRENT * 640;
/// Requests of one stream a run; their median counts.
const REPEATS: usize = 3;
/// How often a measurement is tried before one is taken that is not clean.
const ATTEMPTS: usize = 3;

/// One side of the comparison.
pub(crate) struct Contender {
    /// What it is called in files and tables.
    pub(crate) name: &'static str,
    /// Which build it is.
    pub(crate) version: String,
    /// The command that serves on a port.
    pub(crate) serve: Box<dyn Fn(u16) -> Command>,
    /// Its own measuring tool, if it has one.
    pub(crate) tool: Option<Tool>,
}

/// A program that measures its own engine: tokens a second for a measure.
pub(crate) type Tool = Box<dyn Fn(Measure) -> anyhow::Result<f64>>;

/// One turn of one side.
pub(crate) fn run(
    contender: &Contender,
    run: usize,
    patience: u64,
    log: &Path,
    results: &mut Results,
) -> anyhow::Result<()> {
    let mut add = |measure, way, sample| results.add(contender.name, measure, way, sample);
    if let Some(tool) = &contender.tool {
        for measure in [Measure::Decode, Measure::Prompt] {
            let sample = clean_sample(patience, None, || tool(measure))?;
            add(measure, Way::Tool, sample);
        }
    }
    idle::wait(patience)?;
    let server = Server::start(&contender.serve, log)?;
    let loaded = server.memory()?.resident;
    one_stream(&server, run, PROMPT, 8).context("warming up")?;
    let id = Some(server.id());
    let speeds: [(Measure, Speed); 3] = [
        (Measure::Decode, decode),
        (Measure::Prompt, prompt),
        (Measure::Concurrent, concurrent),
    ];
    for (measure, speed) in speeds {
        let sample = clean_sample(patience, id, || speed(&server, run))?;
        add(measure, Way::Http, sample);
    }
    let memory = server.memory()?;
    for (measure, bytes) in [
        (Measure::MemoryLoaded, loaded),
        (Measure::Memory, memory.resident),
        (Measure::MemoryPeak, memory.peak),
    ] {
        let value = bytes as f64;
        add(measure, Way::Http, Sample { value, others: 0.0 });
    }
    Ok(())
}

/// Tokens a second of a server in a run.
type Speed = fn(&Server, usize) -> anyhow::Result<f64>;

/// Measures on an idle machine, and again when somebody else worked meanwhile.
fn clean_sample(
    patience: u64,
    server: Option<u32>,
    speed: impl Fn() -> anyhow::Result<f64>,
) -> anyhow::Result<Sample> {
    let mut attempts = if patience == 0 { 1 } else { ATTEMPTS };
    loop {
        idle::wait(patience)?;
        let watch = Watch::start(server)?;
        let value = speed()?;
        let others = watch.others()?;
        attempts -= 1;
        if others < QUIET || attempts == 0 {
            return Ok(Sample { value, others });
        }
        println!("  others used {others:.2} cores during {value:.1} tokens/s: once more");
    }
}

/// Tokens a second after the first, of one stream.
fn decode(server: &Server, run: usize) -> anyhow::Result<f64> {
    repeat(|repeat| {
        let done = one_stream(server, run * REPEATS + repeat, 8, TOKENS_OUT)?;
        let time = done.last.saturating_sub(done.first).as_secs_f64();
        Ok((done.tokens - 1) as f64 / time)
    })
}

/// Prompt tokens a second until the first token, of one stream.
fn prompt(server: &Server, run: usize) -> anyhow::Result<f64> {
    repeat(|repeat| {
        let done = one_stream(server, run * REPEATS + repeat, PROMPT, 1)?;
        Ok(PROMPT as f64 / done.first.as_secs_f64())
    })
}

fn repeat(once: impl Fn(usize) -> anyhow::Result<f64>) -> anyhow::Result<f64> {
    let values: Vec<f64> = (0..REPEATS).map(once).collect::<anyhow::Result<_>>()?;
    Ok(median(&values))
}

fn one_stream(
    server: &Server,
    seed: usize,
    tokens_in: usize,
    tokens_out: usize,
) -> anyhow::Result<Completion> {
    complete(server.port(), &random_prompt(seed, tokens_in), tokens_out)
}

/// Output tokens a second of all streams together, from the first request to the last token.
fn concurrent(server: &Server, run: usize) -> anyhow::Result<f64> {
    let port = server.port();
    let start = Instant::now();
    let done: Vec<anyhow::Result<Completion>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CONCURRENT)
            .map(|stream| {
                let prompt = random_prompt(1000 * (run + 1) + stream, TOKENS_IN);
                scope.spawn(move || complete(port, &prompt, TOKENS_OUT))
            })
            .collect();
        let joined = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err(anyhow::anyhow!("a client thread panicked")))
        });
        joined.collect()
    });
    let time = start.elapsed().as_secs_f64();
    let done: Vec<Completion> = done.into_iter().collect::<anyhow::Result<_>>()?;
    let tokens: usize = done.iter().map(|completion| completion.tokens).sum();
    Ok(tokens as f64 / time)
}

/// Ordinary tokens in no order, so that no two prompts share a beginning.
fn random_prompt(seed: usize, tokens: usize) -> Vec<u32> {
    let mut state = (seed as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        1000 + (state >> 33) as u32 % 39_000
    };
    (0..tokens).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_the_same_for_both_sides_and_different_for_each_request() {
        assert_eq!(random_prompt(3, 8), random_prompt(3, 8));
        assert_ne!(random_prompt(3, 8)[0], random_prompt(4, 8)[0]);
        let ordinary = |token: &u32| (1000..40_000).contains(token);
        assert!(random_prompt(5, 512).iter().all(ordinary));
    }
}
