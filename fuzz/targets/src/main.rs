//! Runs the targets without libFuzzer: mutants of the corpus in processes with bounds on memory, stack and time. A mutant
//! that ends or stalls its process is written to fuzz/artifacts, and the run fails.

mod mutate;

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use fuzz_targets::{TARGETS, Target, render_in};
use rustix::process::{Resource, Rlimit, setrlimit};
use text::{Sandbox, SandboxLimits};

/// Bytes that a process may take beyond those it has at its start.
const MEMORY: u64 = 512 << 20;
/// What the threads of the server have.
const STACK: usize = 2 << 20;
/// A mutant that takes a processor for longer is a finding.
const LONGEST: Duration = Duration::from_secs(5);
/// So is one that does not end at all; on a busy machine others come first.
const PATIENCE: Duration = Duration::from_secs(60);
/// After so many findings a target is left alone.
const ENOUGH: usize = 5;
/// The word upon which this program is a process that renders templates.
const RENDER: &str = "--render-chat-templates";

const USAGE: &str =
    "usage: fuzz-targets [TARGET...] [--seconds N | --mutants N] [--seed N] [--processes N]
       fuzz-targets TARGET --only NUMBER [--seed N]";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.first().map(String::as_str) {
        Some(RENDER) => text::serve_sandbox().map_err(|error| error.to_string()),
        Some("--mutants-of") => mutants_of(&words[1..]),
        _ => Plan::parse(&words).and_then(|plan| plan.run()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

/// What is asked for.
struct Plan {
    targets: Vec<(&'static str, Target)>,
    seconds: u64,
    mutants: u64,
    seed: u64,
    processes: usize,
    only: Option<u64>,
}

impl Plan {
    fn parse(words: &[String]) -> Result<Self, String> {
        let mut plan = Self {
            targets: Vec::new(),
            seconds: 0,
            mutants: 0,
            seed: 1,
            processes: 2,
            only: None,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut number = || {
                let value = words.next().and_then(|value| value.parse::<u64>().ok());
                value.ok_or_else(|| format!("{word} needs a number\n{USAGE}"))
            };
            match word.as_str() {
                "--seconds" => plan.seconds = number()?,
                "--mutants" => plan.mutants = number()?,
                "--seed" => plan.seed = number()?,
                "--processes" => plan.processes = number()?.max(1) as usize,
                "--only" => plan.only = Some(number()?),
                name => plan.targets.push(target(name)?),
            }
        }
        if plan.targets.is_empty() {
            plan.targets = TARGETS.to_vec();
        }
        if plan.seconds == 0 && plan.mutants == 0 {
            plan.seconds = 20;
        }
        Ok(plan)
    }

    fn run(&self) -> Result<(), String> {
        if let Some(number) = self.only {
            let (name, target) = self.targets[0];
            let bytes = mutate::mutant(&corpus(name)?, self.seed, number);
            println!("{}", String::from_utf8_lossy(&bytes));
            start_sandbox();
            println!(
                "{}",
                if target(&bytes) {
                    "accepted"
                } else {
                    "refused"
                }
            );
            return Ok(());
        }
        let (next, findings) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..self.processes {
                scope.spawn(|| {
                    while let Some((name, _)) =
                        self.targets.get(next.fetch_add(1, Ordering::Relaxed))
                    {
                        let found = self.watch(name);
                        findings
                            .lock()
                            .expect("no thread panics with it")
                            .extend(found);
                    }
                });
            }
        });
        let findings = findings.into_inner().expect("no thread panicked with it");
        if findings.is_empty() {
            return Ok(());
        }
        Err(findings.join("\n"))
    }

    /// Runs mutants of a target in one process after the other; what ended or stalled one.
    fn watch(&self, name: &str) -> Vec<String> {
        let began = Instant::now();
        let (mut findings, mut next, mut slowest) = (Vec::new(), 0, Duration::ZERO);
        let mut accepted = 0;
        while findings.len() < ENOUGH {
            let seconds = match self.seconds {
                0 => u64::MAX,
                seconds => seconds.saturating_sub(began.elapsed().as_secs()),
            };
            let last = if self.mutants == 0 {
                u64::MAX
            } else {
                self.mutants
            };
            if seconds == 0 || next >= last {
                break;
            }
            let ended =
                Process::start(name, self.seed, next..last, seconds).and_then(Process::watch);
            let ended = match ended {
                Ok(ended) => ended,
                Err(error) => return vec![format!("{name}: {error}")],
            };
            slowest = slowest.max(ended.slowest);
            accepted += ended.accepted;
            let Some((number, why)) = ended.finding else {
                next = ended.next;
                break;
            };
            let saved = self.save(name, number);
            findings.push(format!("{name}: mutant {number} {why}; {saved}"));
            next = number + 1;
        }
        println!(
            "{name}: {next} mutants, {accepted} accepted, in {:.1} s, the slowest {:.2} s, {} findings",
            began.elapsed().as_secs_f64(),
            slowest.as_secs_f64(),
            findings.len()
        );
        if accepted == 0 && findings.is_empty() {
            findings.push(format!(
                "{name}: no mutant was accepted, so nothing was tried"
            ));
        }
        findings
    }

    fn save(&self, name: &str, number: u64) -> String {
        let folder = root().join("artifacts").join(name);
        let path = folder.join(format!("{}-{number}", self.seed));
        let written = corpus(name).and_then(|corpus| {
            let bytes = mutate::mutant(&corpus, self.seed, number);
            std::fs::create_dir_all(&folder)
                .and_then(|()| std::fs::write(&path, bytes))
                .map_err(|error| error.to_string())
        });
        match written {
            Ok(()) => format!("it is fuzz/artifacts/{name}/{}-{number}", self.seed),
            Err(error) => format!("it could not be written: {error}"),
        }
    }
}

/// A process that runs mutants, and what it says: the number of each before it begins.
struct Process {
    child: Child,
}

/// How a process ended.
struct Ended {
    finding: Option<(u64, String)>,
    next: u64,
    accepted: u64,
    slowest: Duration,
}

/// Told with the number of a mutant: the one before it was accepted.
const ACCEPTED: u64 = 1 << 63;

impl Process {
    fn start(
        name: &str,
        seed: u64,
        numbers: std::ops::Range<u64>,
        seconds: u64,
    ) -> io::Result<Self> {
        let numbers = [seed, numbers.start, numbers.end, seconds].map(|number| number.to_string());
        let child = Command::new(std::env::current_exe()?)
            .args(["--mutants-of", name])
            .args(numbers)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Self { child })
    }

    fn watch(mut self) -> io::Result<Ended> {
        let mut stdout = self.child.stdout.take().expect("it is piped");
        let mut stderr = self.child.stderr.take().expect("it is piped");
        let (sender, numbers) = channel();
        std::thread::spawn(move || {
            let mut number = [0; 8];
            while stdout.read_exact(&mut number).is_ok() {
                if sender.send(u64::from_le_bytes(number)).is_err() {
                    break;
                }
            }
        });
        let said = std::thread::spawn(move || {
            let mut said = Vec::new();
            let _ = stderr.read_to_end(&mut said);
            String::from_utf8_lossy(&said).into_owned()
        });
        let (mut current, mut slowest, mut began) = (None, Duration::ZERO, Instant::now());
        let (mut used, mut accepted) = (Duration::ZERO, 0);
        let stalled = loop {
            match numbers.recv_timeout(LONGEST) {
                Ok(told) => {
                    slowest = slowest.max(began.elapsed());
                    accepted += told / ACCEPTED;
                    (current, began) = (Some(told % ACCEPTED), Instant::now());
                    used = Duration::ZERO;
                }
                Err(RecvTimeoutError::Timeout) => {
                    let now = processor_time(self.child.id());
                    if used == Duration::ZERO {
                        used = now;
                    }
                    if now - used >= LONGEST || began.elapsed() >= PATIENCE {
                        break true;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break false,
            }
        };
        if stalled {
            self.child.kill()?;
        }
        let status = self.child.wait()?;
        let said = said.join().unwrap_or_default();
        // What was caught comes before what was not.
        let lines: Vec<&str> = said.lines().filter(|line| !line.is_empty()).collect();
        let said = lines[lines.len().saturating_sub(3)..].join(" ");
        let number = current.unwrap_or_default();
        let finding = match (stalled, status.success()) {
            (true, _) => Some((number, format!("takes longer than {} s", LONGEST.as_secs()))),
            (false, true) => None,
            (false, false) => Some((number, format!("ended its process ({status}): {said}"))),
        };
        Ok(Ended {
            finding,
            next: number,
            accepted,
            slowest,
        })
    }
}

/// The inside of a process: the target, the seed, the first number, the one after the last, and seconds.
fn mutants_of(words: &[String]) -> Result<(), String> {
    let [name, numbers @ ..] = words else {
        return Err(USAGE.to_owned());
    };
    let numbers: Result<Vec<u64>, _> = numbers.iter().map(|number| number.parse()).collect();
    let Ok([seed, first, last, seconds]) = numbers.as_deref() else {
        return Err(USAGE.to_owned());
    };
    let (seed, first, last) = (*seed, *first, *last);
    let (name, target) = target(name)?;
    let corpus = corpus(name)?;
    // Findings are what ends the process; what a library panics about is caught and answered.
    start_sandbox();
    limit_memory().map_err(|error| format!("memory cannot be limited: {error}"))?;
    let end = Instant::now().checked_add(Duration::from_secs(*seconds));
    let run = move || {
        let (mut out, mut before) = (io::stdout(), 0);
        for number in first..last {
            if end.is_some_and(|end| Instant::now() >= end) {
                return tell(&mut out, number | before);
            }
            tell(&mut out, number | before)?;
            let accepted = target(&mutate::mutant(&corpus, seed, number));
            before = if accepted { ACCEPTED } else { 0 };
        }
        tell(&mut out, last | before)
    };
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(run);
    let done = thread.map_err(|error| error.to_string())?.join();
    done.map_err(|_| "a target panicked".to_owned())?
        .map_err(|error| error.to_string())
}

fn tell(out: &mut impl io::Write, number: u64) -> io::Result<()> {
    out.write_all(&number.to_le_bytes())?;
    out.flush()
}

/// What a process and those that it has waited for took of a processor.
fn processor_time(process: u32) -> Duration {
    const TICK: Duration = Duration::from_millis(10);
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace();
    // Its own and its children's, in user mode and in the system.
    let ticks: u32 = fields
        .skip(11)
        .take(4)
        .filter_map(|ticks| ticks.parse::<u32>().ok())
        .sum();
    TICK * ticks
}

fn start_sandbox() {
    // No second means the rest of the one that began.
    let limits = SandboxLimits {
        seconds: 0,
        processes: 1,
        ..SandboxLimits::default()
    };
    render_in(Sandbox::new(Path::new("/proc/self/exe"), &[RENDER], limits));
}

fn limit_memory() -> io::Result<()> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let kilobytes = kilobytes.ok_or_else(|| io::Error::other("/proc/self/status has no VmSize"))?;
    let limit = Some((kilobytes << 10) + MEMORY);
    let limit = Rlimit {
        current: limit,
        maximum: limit,
    };
    Ok(setrlimit(Resource::As, limit)?)
}

fn target(name: &str) -> Result<(&'static str, Target), String> {
    let known = TARGETS.iter().find(|(known, _)| *known == name);
    known.copied().ok_or_else(|| {
        let names = TARGETS.map(|(name, _)| name).join(", ");
        format!("there is no target {name}; there are {names}\n{USAGE}")
    })
}

fn corpus(name: &str) -> Result<Vec<Vec<u8>>, String> {
    let folder = root().join("corpus").join(name);
    let blame = |error: io::Error| format!("{}: {error}", folder.display());
    let entries: io::Result<Vec<_>> = std::fs::read_dir(&folder).map_err(blame)?.collect();
    let mut paths: Vec<PathBuf> = entries
        .map_err(blame)?
        .iter()
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    let files: io::Result<Vec<_>> = paths.iter().map(std::fs::read).collect();
    match files.map_err(blame)? {
        files if files.is_empty() => Err(format!("{} is empty", folder.display())),
        files => Ok(files),
    }
}

/// The folder of the fuzz workspace.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("it lies in that folder").to_owned()
}
