//! The table of strict measurement: the reference's frame, with what it leaves out.

use super::Frame;
use super::reference::{Kind, block, goodput_block};
use crate::measure::own::ClientHealth;
use crate::measure::steady::NotSteady;
use crate::measure::strict::StrictFigures;
use crate::python_text;

const TAIL: &[Kind] = &[Kind::P90, Kind::P95, Kind::P99];

/// What the table says before its figures.
#[derive(Clone, Debug)]
pub struct StrictHeading<'a> {
    /// The backend's name.
    pub backend: &'a str,
    /// The pace in words.
    pub pace: &'a str,
    /// The rate aimed at; infinite for none, nothing for a trace.
    pub rate: Option<f64>,
    /// The gate, when there is one.
    pub max_concurrency: Option<u64>,
    /// The prefix cache's state at the start, in words.
    pub cache: &'a str,
    /// Whether answers have no tokens.
    pub embedding: bool,
}

/// The table of one run.
pub fn strict_table(
    heading: &StrictHeading<'_>,
    figures: &StrictFigures,
    health: &ClientHealth,
) -> String {
    let mut frame = Frame::titled(" Serving Benchmark Result (strict) ");
    load(&mut frame, heading, figures);
    tokens(&mut frame, heading, figures);
    let e2e = [("schedule", &figures.scheduled_e2e), ("send", &figures.e2e)];
    for (from, spread) in e2e {
        block(
            &mut frame,
            &format!("End-to-End Latency from {from}"),
            "E2E",
            spread,
            TAIL,
        );
    }
    if !heading.embedding {
        let ttft = [
            ("schedule", &figures.scheduled_ttft),
            ("send", &figures.ttft),
        ];
        for (from, spread) in ttft {
            block(
                &mut frame,
                &format!("Time to First Token from {from}"),
                "TTFT",
                spread,
                TAIL,
            );
        }
        let head = "Time per Output Token (excl. 1st token)";
        block(&mut frame, head, "TPOT", &figures.tpot, TAIL);
        let gaps = [Kind::P90, Kind::P95, Kind::P99, Kind::Max];
        block(
            &mut frame,
            "Inter-Token Latency",
            "ITL",
            &figures.itl,
            &gaps,
        );
    }
    block(
        &mut frame,
        "Client Queue Time",
        "queue",
        &figures.queue,
        TAIL,
    );
    if let Some(goodput) = &figures.goodput {
        goodput_block(&mut frame, goodput);
    }
    steady(&mut frame, figures);
    client(&mut frame, health);
    frame.closed()
}

fn load(frame: &mut Frame, heading: &StrictHeading<'_>, figures: &StrictFigures) {
    frame.word("Backend:", heading.backend);
    frame.word("Pace:", heading.pace);
    let rate = heading
        .rate
        .map_or_else(|| "trace".to_owned(), python_text::float);
    frame.word("Target request rate (req/s):", rate);
    frame.number("Achieved request rate (req/s):", figures.achieved_rate);
    let gate = heading
        .max_concurrency
        .map_or_else(|| "not set".to_owned(), |gate| gate.to_string());
    frame.word("Max request concurrency:", gate);
    frame.word("Requests sent:", figures.sent);
    frame.word("Successful requests:", figures.completed);
    frame.word("Failed requests:", figures.failed());
    for (name, count) in &figures.failures {
        frame.word(&format!("  {name}:"), count);
    }
    frame.number("Benchmark duration (s):", figures.duration);
    let peak = figures.peak_requests.map(|peak| peak.to_string());
    frame.word("Peak concurrent requests:", peak.unwrap_or_else(not_known));
    frame.number("Concurrency:", figures.concurrency);
    frame.number(
        "Request throughput (req/s):",
        figures.per_second(figures.completed as u64),
    );
}

fn tokens(frame: &mut Frame, heading: &StrictHeading<'_>, figures: &StrictFigures) {
    frame.head("Tokens");
    frame.word("Input tokens (dataset):", figures.input_nominal);
    let actual = figures.input_actual.map(|tokens| tokens.to_string());
    frame.word("Input tokens (server):", actual.unwrap_or_else(not_known));
    frame.number(
        "Input token throughput (tok/s):",
        figures.per_second(figures.input()),
    );
    if !heading.embedding {
        let sources: Vec<&str> = figures
            .output_sources
            .iter()
            .map(|source| source.name())
            .collect();
        frame.word("Generated tokens:", figures.output);
        frame.word("Generated tokens counted by:", sources.join("+"));
        frame.number(
            "Output token throughput (tok/s):",
            figures.per_second(figures.output),
        );
        frame.number("Peak output in any second (tok/s):", figures.peak_output);
        let total = figures.input() + figures.output;
        frame.number("Total token throughput (tok/s):", figures.per_second(total));
    }
    if let Some(length) = figures.accept_length {
        frame.number("Accept length:", length);
    }
    frame.word("Prefix cache at start:", heading.cache);
    let rate = figures
        .cache
        .as_ref()
        .map(|hits| format!("{:.1}%", hits.rate() * 100.0));
    frame.word("Prefix cache hit rate:", rate.unwrap_or_else(not_known));
}

fn not_known() -> String {
    "n/a".to_owned()
}

fn steady(frame: &mut Frame, figures: &StrictFigures) {
    let steady = match &figures.steady {
        // Nothing that such a run could have.
        Err(NotSteady::Open | NotSteady::Burst) => return,
        Err(why) => {
            frame.head("Steady State");
            frame.word("Steady window (s):", not_known());
            frame.line(&format!("  {why}"));
            return;
        }
        Ok(steady) => steady,
    };
    frame.head("Steady State");
    frame.number("Steady window (s):", steady.seconds());
    frame.word("Requests under way at least:", steady.threshold);
    frame.number("Concurrency in the window:", steady.concurrency);
    frame.number("Request throughput (req/s):", steady.request_throughput);
    frame.number("Output token throughput (tok/s):", steady.output_throughput);
}

fn client(frame: &mut Frame, health: &ClientHealth) {
    frame.head("This Client");
    frame.number("P99 read lag (ms):", health.read_lag * 1e3);
    frame.number("P99 send lag (ms):", health.send_lag * 1e3);
    frame.number("CPU time (s):", health.cpu);
    frame.number("Busy per thread (%):", health.busy * 100.0);
    frame.word(
        "Client-limited:",
        if health.is_limited() { "yes" } else { "no" },
    );
    for limit in &health.limits {
        frame.line(&format!("  {limit}"));
    }
}
