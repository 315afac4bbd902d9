//! Which adapter each request uses, and when it is due.

use super::options::{Imitated, Options};
use crate::dataset::Row;
use crate::measure::steady::Loop;
use crate::pace::{Arrivals, Burst, Closed, Drift, Gaps, Pace, Ramp, Replay};
use crate::random::Streams;
use std::sync::Arc;

/// The adapters and the pace of a run.
pub(super) struct Schedule {
    pub(super) adapters: Vec<Arc<str>>,
    pub(super) pace: Box<dyn Pace>,
    /// How many may be under way at once.
    pub(super) gate: Option<usize>,
    /// The rate printed, or nothing for a trace.
    pub(super) rate: Option<f64>,
    /// What makes requests leave.
    pub(super) shape: Loop,
}

impl Schedule {
    /// Draws what has to be drawn, in the reference's order.
    pub(super) fn of(options: &Options, rows: &[Arc<Row>], streams: Streams) -> Self {
        let rate = options.given.float("request-rate").unwrap_or(f64::INFINITY);
        Self::at(options, rows, streams, rate)
    }

    /// The same at another rate.
    pub(super) fn at(
        options: &Options,
        rows: &[Arc<Row>],
        mut streams: Streams,
        rate: f64,
    ) -> Self {
        let gate = match options.imitated {
            Imitated::Sglang => options.count("max-concurrency").filter(|most| *most > 0),
            Imitated::Lmdeploy => None,
        };
        let gate = gate.map(|most| most as usize);
        let adapters = Adapters::of(options);
        let skewed = matches!(adapters, Adapters::Skewed(..));
        let mut chosen = Vec::new();
        let mut gaps = Vec::new();
        for place in 0..rows.len() {
            chosen.extend(adapters.choose(place, &mut streams));
            if skewed && rate.is_finite() {
                gaps.push(streams.numpy.exponential(1.0));
            }
        }
        let gaps = if skewed {
            Gaps::Drawn(gaps.into_iter().cycle())
        } else {
            Gaps::Exponential(streams.numpy)
        };
        let shape = shape(options, rows, rate, gate);
        let (pace, rate) = pace(options, rows, rate, gate, gaps);
        Self {
            adapters: chosen,
            pace,
            gate,
            rate,
            shape,
        }
    }
}

/// What makes requests leave under these options.
fn shape(options: &Options, rows: &[Arc<Row>], rate: f64, gate: Option<usize>) -> Loop {
    let scheduled = rate.is_finite() || options.own.given("ramp") || follows_trace(options, rows);
    match gate {
        _ if scheduled => Loop::Open,
        Some(most) if most < rows.len() || options.own.given("duration") => Loop::Closed,
        _ => Loop::Burst,
    }
}

fn pace(
    options: &Options,
    rows: &[Arc<Row>],
    rate: f64,
    gate: Option<usize>,
    gaps: Gaps,
) -> (Box<dyn Pace>, Option<f64>) {
    if follows_trace(options, rows) {
        let slowdown = options
            .given
            .float("mooncake-slowdown-factor")
            .unwrap_or(1.0);
        let moments: Vec<f64> = rows
            .iter()
            .map(|row| row.timestamp.unwrap_or_default())
            .collect();
        let shown = (!options.strict && !is_traced(options)).then_some(rate);
        return (Box::new(Replay::trace(&moments, slowdown)), shown);
    }
    // The reference calls a run traced that is not.
    let shown = (options.strict || !is_traced(options)).then_some(rate);
    let seed = options.seed().unwrap_or_default();
    let gaps = match options.own.text("pace") {
        Some("constant") => Gaps::Constant,
        Some("gamma") => {
            let burstiness = options.own.float("burstiness").unwrap_or(1.0);
            Gaps::gamma(burstiness, seed).unwrap_or(gaps)
        }
        _ => gaps,
    };
    if let Some((from, to, over)) = ramp(options) {
        return (Box::new(Ramp::new(from, to, over, gaps)), Some(to));
    }
    if !rate.is_finite() {
        let pace: Box<dyn Pace> = match gate {
            Some(concurrency) if options.strict => Box::new(Closed { concurrency }),
            _ => Box::new(Burst),
        };
        return (pace, shown);
    }
    let drift = if options.strict {
        Drift::Absolute
    } else {
        Drift::Relative
    };
    (Box::new(Arrivals::new(rate, gaps, drift)), shown)
}

/// Whether the moments of a trace are asked for.
fn is_traced(options: &Options) -> bool {
    options.imitated == Imitated::Sglang && options.given.switch("use-trace-timestamps")
}

/// Traces are followed where the reference follows them, and in strict mode wherever there is one,
/// unless a rate is to be found or to change.
pub(super) fn follows_trace(options: &Options, rows: &[Arc<Row>]) -> bool {
    let has_moments = rows.first().is_some_and(|row| row.timestamp.is_some());
    let mooncake = options.given.text("dataset-name") == Some("mooncake");
    let reference = mooncake && options.given.text("backend") == Some("sglang");
    let rated = options.own.switch("find-max-rate") || options.own.given("ramp");
    let strict = options.strict && (is_traced(options) || mooncake);
    has_moments && !rated && (reference || strict)
}

/// The two rates and the seconds of `--ramp`.
pub(super) fn ramp(options: &Options) -> Option<(f64, f64, f64)> {
    let text = options.own.text("ramp")?;
    let numbers: Vec<f64> = text
        .split(':')
        .map_while(|part| part.parse().ok())
        .collect();
    match numbers.as_slice() {
        [from, to, over]
            if [from, to, over]
                .iter()
                .all(|number| number.is_finite() && **number > 0.0) =>
        {
            Some((*from, *to, *over))
        }
        _ => None,
    }
}

/// How adapters are chosen.
enum Adapters {
    None,
    Uniform(Vec<Arc<str>>),
    Distinct(Vec<Arc<str>>),
    Skewed(Vec<Arc<str>>, Vec<f64>),
}

impl Adapters {
    fn of(options: &Options) -> Self {
        if options.imitated == Imitated::Lmdeploy {
            return Self::None;
        }
        let names = options.given.list("lora-name").unwrap_or_default();
        let names: Vec<Arc<str>> = names.into_iter().map(Arc::from).collect();
        if names.is_empty() {
            return Self::None;
        }
        match options.given.text("lora-request-distribution") {
            Some("distinct") => Self::Distinct(names),
            Some("skewed") => {
                let alpha = options.given.float("lora-zipf-alpha").unwrap_or(1.5);
                let weights: Vec<f64> = (0..names.len())
                    .map(|rank| alpha.powf(-(rank as f64)))
                    .collect();
                let sum = crate::measure::pairwise_sum(&weights);
                Self::Skewed(names, weights.iter().map(|weight| weight / sum).collect())
            }
            _ => Self::Uniform(names),
        }
    }

    fn choose(&self, place: usize, streams: &mut Streams) -> Option<Arc<str>> {
        match self {
            Self::None => None,
            Self::Uniform(names) => Some(Arc::clone(&names[streams.python.below(names.len())])),
            Self::Distinct(names) => Some(Arc::clone(&names[place % names.len()])),
            Self::Skewed(names, shares) => Some(Arc::clone(&names[streams.numpy.choice(shares)])),
        }
    }
}
