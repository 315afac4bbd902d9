//! Minutes of mixed load with random cancels, and whether the server came through: every answer whole, greedy answers the
//! same before and after, nothing left running, no memory lost, no step held up by the host.
//!
//! `soak --port PORT --pid PID [--seconds 600] [--clients 64] [--cancel 0.3] [--longest-input 2048] [--longest-output 512]
//! [--most-jitter-ms 10] [--seed 1]`; ends with 1 when something is wrong.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for people"
)]

mod client;
mod load;
mod memory;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use client::Server;
use load::{Load, Tally};
use memory::{Growth, Memory};

/// Prompts whose greedy answers are kept.
const KEPT: u64 = 8;
const KEPT_TOKENS: u32 = 32;
/// How often memory is looked at, and after how many looks it is said that the soak goes on.
const GLANCE: Duration = Duration::from_secs(2);
const GLANCES_A_LINE: usize = 30;

/// What was asked for on the command line.
struct Options {
    server: Server,
    pid: u32,
    seconds: u64,
    clients: usize,
    load: Load,
    most_jitter_ms: f64,
}

impl Options {
    fn parse(words: &[String]) -> anyhow::Result<Self> {
        let value = |name: &str, default: Option<&str>| -> anyhow::Result<String> {
            let at = words.iter().position(|word| word == name);
            let given = at.and_then(|at| words.get(at + 1)).map(String::as_str);
            given
                .or(default)
                .map(str::to_owned)
                .with_context(|| format!("{name} is missing"))
        };
        Ok(Self {
            server: Server {
                port: value("--port", None)?.parse()?,
            },
            pid: value("--pid", None)?.parse()?,
            seconds: value("--seconds", Some("600"))?.parse()?,
            clients: value("--clients", Some("64"))?.parse()?,
            load: Load {
                cancel: value("--cancel", Some("0.3"))?.parse()?,
                longest_input: value("--longest-input", Some("2048"))?.parse()?,
                longest_output: value("--longest-output", Some("512"))?.parse()?,
                seed: value("--seed", Some("1"))?.parse()?,
            },
            most_jitter_ms: value("--most-jitter-ms", Some("10"))?.parse()?,
        })
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match Options::parse(&words).and_then(|options| run(&options)) {
        Ok(wrong) if wrong.is_empty() => {
            println!("soak: clean");
            ExitCode::SUCCESS
        }
        Ok(wrong) => {
            for line in &wrong {
                println!("soak: WRONG: {line}");
            }
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("soak: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs the whole soak and says what was wrong.
fn run(options: &Options) -> anyhow::Result<Vec<String>> {
    let before = kept_answers(options)?;
    let (tally, memory) = drive(options);
    println!(
        "soak: {} whole, {} cancelled, {} output tokens in {} s",
        tally.whole, tally.cancelled, tally.tokens, options.seconds
    );
    let mut wrong = tally.wrong;
    wrong.truncate(20);
    if tally.whole == 0 || tally.cancelled == 0 {
        wrong.push("there was no mixed load".to_owned());
    }
    wait_until_idle(options.server, &mut wrong)?;
    let after = kept_answers(options)?;
    let same = before.iter().zip(&after).filter(|(a, b)| a == b).count();
    println!("soak: {same} of {KEPT} greedy answers are the same before and after");
    if same as u64 != KEPT {
        wrong.push("greedy answers to the same prompts differ before and after".to_owned());
    }
    wrong.extend(judge_memory(&memory));
    wrong.extend(judge_steps(options)?);
    Ok(wrong)
}

/// Greedy answers to a few prompts, one at a time.
fn kept_answers(options: &Options) -> anyhow::Result<Vec<Vec<u64>>> {
    (0..KEPT)
        .map(|number| {
            let prompt = options.load.prompt(1 << 40 | number, 200);
            let answer = options.server.generate(&prompt, KEPT_TOKENS, None)?;
            Ok(answer.tokens)
        })
        .collect()
}

/// Loads the server from many clients for the time given, looking at its memory all the while.
fn drive(options: &Options) -> (Tally, Vec<Memory>) {
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let mut memory = Vec::new();
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..options.clients as u64)
            .map(|client| scope.spawn(move || options.load.run(options.server, client, end)))
            .collect();
        while Instant::now() < end {
            let now = Memory::of(options.pid);
            if memory.len() % GLANCES_A_LINE == 0 {
                let left = end.saturating_duration_since(Instant::now()).as_secs();
                eprintln!("soak: {left} s left, {now}");
            }
            memory.push(now);
            rest(GLANCE.min(end.saturating_duration_since(Instant::now())));
        }
        for client in clients {
            tally.add(client.join().expect("clients return what was wrong"));
        }
    });
    (tally, memory)
}

#[expect(
    clippy::disallowed_methods,
    reason = "another process is looked at now and then"
)]
fn rest(time: Duration) {
    std::thread::sleep(time);
}

/// Cancelled requests must leave by themselves.
fn wait_until_idle(server: Server, wrong: &mut Vec<String>) -> anyhow::Result<()> {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let info = server.info()?;
        let left: Vec<String> = ["num_running_reqs", "num_queue_reqs", "open_sequences"]
            .into_iter()
            .filter(|name| info[*name] != 0)
            .map(|name| format!("{name} is {}", info[name]))
            .collect();
        if left.is_empty() {
            break;
        }
        if Instant::now() > end {
            wrong.push(format!("after the load, {}", left.join(", ")));
            break;
        }
        rest(Duration::from_millis(100));
    }
    // Refused unless nothing runs and every page is accounted for.
    let (status, _) = server.ask("POST", "/flush_cache", "")?;
    if status != 200 {
        wrong.push(format!("/flush_cache answered {status}"));
    }
    Ok(())
}

fn judge_memory(memory: &[Memory]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, of, slack) in [
        ("host", (|m| m.host) as fn(&Memory) -> Option<u64>, 64 << 20),
        ("device", |m| m.device, 16 << 20),
    ] {
        let Some(growth) = Growth::of(memory, of) else {
            println!("soak: {name} memory is not known here");
            continue;
        };
        println!(
            "soak: {name} memory {} MiB in the second fifth, {} MiB in the last",
            growth.early >> 20,
            growth.late >> 20
        );
        if growth.late > growth.early + slack {
            wrong.push(format!(
                "{name} memory grew by {} MiB",
                (growth.late - growth.early) >> 20
            ));
        }
    }
    wrong
}

/// What the server itself says of its steps.
fn judge_steps(options: &Options) -> anyhow::Result<Vec<String>> {
    let info = options.server.info()?;
    let times = &info["step_times"];
    println!("soak: decode steps {}", times["decode"]);
    println!("soak: step jitter, ms {}", times["jitter_ms"]);
    println!("soak: host work a step, ms {}", times["host_ms"]);
    let mut wrong = Vec::new();
    for name in ["host_ms", "jitter_ms"] {
        match times[name]["p99_9"].as_f64() {
            Some(millis) if millis < options.most_jitter_ms => {}
            Some(millis) => wrong.push(format!(
                "p99.9 of {name} is {millis:.2}, the limit is {}",
                options.most_jitter_ms
            )),
            None => bail!("the server does not tell {name}: {times}"),
        }
    }
    let (status, _) = options.server.ask("GET", "/health", "")?;
    if status != 200 {
        wrong.push(format!("/health answered {status}"));
    }
    if info["num_running_reqs"] != 0 {
        wrong.push("something runs in an idle server".to_owned());
    }
    Ok(wrong)
}
