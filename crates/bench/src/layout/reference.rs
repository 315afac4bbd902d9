//! The reference's table in its five layouts.

use super::{Frame, Layout};
use crate::measure::cache::CacheHits;
use crate::measure::goodput::Goodput;
use crate::measure::reference::{Figures, Spread};
use crate::python_text;

/// What the table says before its figures.
#[derive(Clone, Debug)]
pub struct Heading<'a> {
    /// The backend's name.
    pub backend: &'a str,
    /// The rate, or nothing for a trace.
    pub rate: Option<f64>,
    /// The gate, when there is one.
    pub max_concurrency: Option<u64>,
    /// Whether answers have no tokens.
    pub embedding: bool,
    /// Whether prompts have images.
    pub images: bool,
}

/// The table of one run.
pub fn reference_table(
    layout: Layout,
    heading: &Heading<'_>,
    figures: &Figures,
    goodput: Option<&Goodput>,
    cache: Option<&CacheHits>,
) -> String {
    let mut frame = Frame::titled(" Serving Benchmark Result ");
    frame.word("Backend:", heading.backend);
    let rate = heading
        .rate
        .map_or_else(|| "trace".to_owned(), python_text::float);
    frame.word("Traffic request rate:", rate);
    let gate = heading
        .max_concurrency
        .map_or_else(|| "not set".to_owned(), |gate| gate.to_string());
    frame.word("Max request concurrency:", gate);
    totals(&mut frame, layout, heading, figures);
    throughput(&mut frame, layout, heading, figures);
    if let Some(goodput) = goodput {
        goodput_block(&mut frame, goodput);
    }
    times(&mut frame, layout, heading, figures);
    if let Some(cache) = cache {
        cache_block(&mut frame, cache);
    }
    frame.closed()
}

fn totals(frame: &mut Frame, layout: Layout, heading: &Heading<'_>, figures: &Figures) {
    frame.word("Successful requests:", figures.completed);
    frame.number("Benchmark duration (s):", figures.duration);
    frame.word("Total input tokens:", figures.input);
    if layout >= Layout::B {
        frame.word("Total input text tokens:", figures.input_text);
    }
    let vision =
        (Layout::B..Layout::E).contains(&layout) || (layout == Layout::E && heading.images);
    if vision {
        frame.word("Total input vision tokens:", figures.input_vision);
    }
    if !heading.embedding {
        frame.word("Total generated tokens:", figures.output);
        frame.word(
            "Total generated tokens (retokenized):",
            figures.output_retokenized,
        );
    }
}

fn throughput(frame: &mut Frame, layout: Layout, heading: &Heading<'_>, figures: &Figures) {
    frame.number("Request throughput (req/s):", figures.request_throughput());
    frame.number(
        "Input token throughput (tok/s):",
        figures.input_throughput(),
    );
    if !heading.embedding {
        frame.number(
            "Output token throughput (tok/s):",
            figures.output_throughput(),
        );
    }
    if layout >= Layout::C {
        if !heading.embedding {
            frame.number("Peak output token throughput (tok/s):", figures.peak_output);
        }
        frame.word("Peak concurrent requests:", figures.peak_requests);
    }
    if !heading.embedding {
        frame.number(
            "Total token throughput (tok/s):",
            figures.total_throughput(),
        );
    }
    frame.number("Concurrency:", figures.concurrency);
    if let Some(length) = figures.accept_length.filter(|length| *length != 0.0) {
        frame.number("Accept length:", length);
    }
}

fn times(frame: &mut Frame, layout: Layout, heading: &Heading<'_>, figures: &Figures) {
    let all: &[Kind] = &[Kind::P90, Kind::P95, Kind::P99];
    let only_p99: &[Kind] = &[Kind::P99];
    let whole: &[Kind] = match layout {
        Layout::A | Layout::B | Layout::C => &[],
        Layout::D => &[Kind::P90, Kind::P99],
        Layout::E => all,
    };
    let token = if layout == Layout::E { all } else { only_p99 };
    let gap: &[Kind] = match layout {
        Layout::E => &[Kind::P90, Kind::P95, Kind::P99, Kind::Max],
        _ => &[Kind::P95, Kind::P99, Kind::Max],
    };
    block(
        frame,
        "End-to-End Latency",
        "E2E Latency",
        &figures.e2e,
        whole,
    );
    if heading.embedding {
        return;
    }
    block(frame, "Time to First Token", "TTFT", &figures.ttft, token);
    if layout >= Layout::C {
        let head = "Time per Output Token (excl. 1st token)";
        block(frame, head, "TPOT", &figures.tpot, token);
    }
    block(frame, "Inter-Token Latency", "ITL", &figures.itl, gap);
}

/// A figure of a spread beyond mean and median.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    P90,
    P95,
    P99,
    Max,
}

pub(super) fn block(frame: &mut Frame, head: &str, name: &str, spread: &Spread, kinds: &[Kind]) {
    frame.head(head);
    frame.number(&format!("Mean {name} (ms):"), spread.mean);
    frame.number(&format!("Median {name} (ms):"), spread.median);
    for kind in kinds {
        let (label, value) = match kind {
            Kind::P90 => ("P90", spread.p90),
            Kind::P95 => ("P95", spread.p95),
            Kind::P99 => ("P99", spread.p99),
            Kind::Max => ("Max", spread.max),
        };
        frame.number(&format!("{label} {name} (ms):"), value);
    }
}

pub(super) fn goodput_block(frame: &mut Frame, goodput: &Goodput) {
    frame.head("Goodput");
    frame.word("SLOs (ms):", &goodput.objectives);
    frame.number("Request goodput (req/s):", goodput.per_second);
    frame.number("SLO attainment (%):", goodput.attainment * 100.0);
    for (key, share) in &goodput.by_objective {
        let label = format!("{} SLO attainment (%):", key.name().to_uppercase());
        frame.number(&label, share * 100.0);
    }
}

pub(super) fn cache_block(frame: &mut Frame, cache: &CacheHits) {
    let storage = match &cache.storage_backend {
        Some(name) => format!("  Storage ({name}):"),
        None => "  Storage:".to_owned(),
    };
    frame.head("Cache Hit Details");
    frame.word("Total prompt tokens:", cache.prompt_tokens);
    frame.word("Total cached tokens:", cache.cached_tokens);
    let places = cache.places.filter(|_| cache.cached_tokens > 0);
    if let Some(places) = places {
        frame.word("  Device:", places.device);
        frame.word("  Host:", places.host);
        if places.storage > 0 {
            frame.word(&storage, places.storage);
        }
    }
    let percent = |label: &str, value: f64| format!("{label:<40} {value:.1}%");
    frame.line(&percent("Cache hit rate:", cache.rate() * 100.0));
    if let Some(places) = places {
        let share = |tokens: u64| tokens as f64 / cache.cached_tokens as f64 * 100.0;
        frame.line(&percent("  Device:", share(places.device)));
        frame.line(&percent("  Host:", share(places.host)));
        if places.storage > 0 {
            frame.line(&percent(&storage, share(places.storage)));
        }
    }
}
