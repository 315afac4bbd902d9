//! The course of a run: throughput, concurrency, failures and pauses, moment by moment.

use super::{Chart, Key, Span};
use crate::clock::Nanos;
use crate::measure::overlap::levels;
use crate::measure::percentile;
use crate::measure::timing::Timing;
use crate::page::svg::{Canvas, Domain, Look, Series, Strip, lines, short, strips};
use crate::record::RequestRecord;
use std::collections::BTreeMap;

/// A time line has about this many steps.
const STEPS: f64 = 240.0;
/// The shortest step, in seconds.
const SHORTEST: f64 = 0.05;
/// Throughput is averaged over this many seconds, in runs that are some times as long.
const SMOOTH: f64 = 1.0;
const LONG_ENOUGH: f64 = 4.0;
/// A line of more points than this shows the extremes of neighbours.
const MOST_POINTS: usize = 2000;
/// Kinds of failures with a row of their own.
const MOST_KINDS: usize = 6;

const WIDTH: f64 = 960.0;

/// A run cut into equal steps.
struct Steps {
    width: f64,
    count: usize,
}

impl Steps {
    fn of(run: Span) -> Self {
        Self::about((run.seconds / STEPS).max(SHORTEST), run)
    }

    /// Steps of about this width that fill the run exactly.
    fn about(width: f64, run: Span) -> Self {
        let count = (run.seconds / width).floor().max(1.0);
        Self {
            width: run.seconds / count,
            count: count as usize,
        }
    }

    fn at(&self, second: f64) -> usize {
        ((second / self.width) as usize).min(self.count.saturating_sub(1))
    }
}

/// Output tokens per second, step by step and as a moving mean.
pub(super) fn throughput(timings: &[Timing], run: Span) -> Chart {
    let steps = Steps::of(run);
    let raw = [stairs(&tokens(timings, run, &steps), steps.width)];
    let fine = Steps::about(SHORTEST, run);
    let smooth = [moving_mean(&tokens(timings, run, &fine), fine.width)];
    let smoothed = run.seconds >= LONG_ENOUGH && steps.width < SMOOTH;
    let series = |stretches, look| Series {
        class: "c1",
        stretches,
        steps: look != Look::Line,
        look,
    };
    let mut all = vec![series(
        &raw,
        if smoothed { Look::Area } else { Look::Filled },
    )];
    let step = short(steps.width);
    let mut key = vec![Key::new("c1 faint", format!("each {step} s"))];
    if smoothed {
        all.push(series(&smooth, Look::Line));
        key.insert(0, Key::new("c1", "moving mean over 1 s"));
    }
    Chart {
        title: "Throughput",
        key,
        note: String::new(),
        svg: lines(
            Canvas::new(WIDTH, 210.0),
            run.range(),
            ("seconds", "output tokens / s"),
            Domain::even(0.0, highest(&raw) * 1.05),
            &all,
        ),
    }
}

/// Output tokens that arrived in each step.
fn tokens(timings: &[Timing], run: Span, steps: &Steps) -> Vec<f64> {
    let mut tokens = vec![0.0; steps.count];
    for arrival in timings.iter().flat_map(|timing| &timing.arrivals) {
        tokens[steps.at(run.at(arrival.at))] += f64::from(arrival.tokens);
    }
    tokens
}

/// What came in each step as a rate that holds for all of it.
fn stairs(tokens: &[f64], width: f64) -> Vec<(f64, f64)> {
    let starts = tokens.iter().enumerate();
    let mut line: Vec<(f64, f64)> = starts
        .map(|(step, tokens)| (step as f64 * width, tokens / width))
        .collect();
    if let Some((_, rate)) = line.last().copied() {
        line.push((tokens.len() as f64 * width, rate));
    }
    line
}

/// The rate over `SMOOTH` seconds around each step; at the ends over what there is of them.
fn moving_mean(tokens: &[f64], width: f64) -> Vec<(f64, f64)> {
    let half = (SMOOTH / width / 2.0).floor() as usize;
    let mut sums = vec![0.0];
    for tokens in tokens {
        sums.push(sums[sums.len() - 1] + tokens);
    }
    let mean = |step: usize| {
        let (from, to) = (
            step.saturating_sub(half),
            (step + half + 1).min(tokens.len()),
        );
        let rate = (sums[to] - sums[from]) / ((to - from) as f64 * width);
        ((step as f64 + 0.5) * width, rate)
    };
    (0..tokens.len()).map(mean).collect()
}

/// Requests under way.
pub(super) fn concurrency(records: &[RequestRecord], run: Span) -> Chart {
    let spans: Vec<(Nanos, Nanos)> = records
        .iter()
        .map(|record| (record.sent, record.finished))
        .collect();
    let line: Vec<(f64, f64)> = levels(&spans)
        .iter()
        .map(|level| (run.at(level.from), level.under_way as f64))
        .collect();
    let mut line = extremes(line);
    line.push((run.seconds, 0.0));
    let stretches = [line];
    let series = Series {
        class: "c2",
        stretches: &stretches,
        steps: true,
        look: Look::Filled,
    };
    Chart {
        title: "Concurrency",
        key: Vec::new(),
        note: String::new(),
        svg: lines(
            Canvas::new(WIDTH, 170.0),
            run.range(),
            ("seconds", "requests under way"),
            Domain::even(0.0, highest(&stretches) * 1.05),
            &[series],
        ),
    }
}

/// The line itself, or the lowest and the highest of each few neighbours when it is long.
fn extremes(line: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if line.len() <= MOST_POINTS {
        return line;
    }
    let group = line.len().div_ceil(MOST_POINTS / 2);
    let pairs = line.chunks(group).flat_map(|few| {
        let by_value = |one: &&(f64, f64), two: &&(f64, f64)| one.1.total_cmp(&two.1);
        let ends = [few.iter().min_by(by_value), few.iter().max_by(by_value)];
        let mut ends: Vec<(f64, f64)> = ends.into_iter().flatten().copied().collect();
        ends.sort_by(|one, two| one.0.total_cmp(&two.0));
        ends
    });
    pairs.collect()
}

fn highest(stretches: &[Vec<(f64, f64)>]) -> f64 {
    let values = stretches.iter().flatten().map(|point| point.1);
    values.fold(0.0, f64::max)
}

/// When requests failed, a row for each reason; nothing where none did.
pub(super) fn failures(records: &[RequestRecord], run: Span) -> Option<Chart> {
    let steps = Steps::of(run);
    let mut kinds: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for record in records {
        if let Some(failure) = &record.failure {
            let counts = kinds.entry(failure.name());
            let counts = counts.or_insert_with(|| vec![0; steps.count]);
            counts[steps.at(run.at(record.finished))] += 1;
        }
    }
    let mut kinds: Vec<(String, Vec<usize>)> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.iter().sum::<usize>()));
    if kinds.len() > MOST_KINDS {
        let rest = kinds.split_off(MOST_KINDS - 1);
        let name = format!("{} other reasons", rest.len());
        let sum = |step: usize| rest.iter().map(|(_, counts)| counts[step]).sum();
        kinds.push((name, (0..steps.count).map(sum).collect()));
    }
    let rows: Vec<Strip<'_>> = kinds
        .iter()
        .map(|(name, counts)| Strip {
            class: "w4",
            name,
            counts: counts.clone(),
        })
        .collect();
    (!rows.is_empty()).then(|| Chart {
        title: "Failures, by the moment at which they ended",
        key: Vec::new(),
        note: format!("failures in each {} s", short(steps.width)),
        svg: strips(WIDTH, run.range(), "seconds", &rows),
    })
}

/// Pauses between tokens that were under way in a step.
#[derive(Default)]
struct Pauses {
    per_token: Vec<f64>,
    longest: f64,
}

/// Pauses between tokens over the run; nothing where there are none. A pause counts in every step
/// that it touches: a stall is as long in the chart as it was.
pub(super) fn gaps(timings: &[Timing], run: Span) -> Option<Chart> {
    let steps = Steps::of(run);
    let mut all: BTreeMap<usize, Pauses> = BTreeMap::new();
    for pair in timings.iter().flat_map(|timing| timing.arrivals.windows(2)) {
        let whole = pair[1].at.seconds_since(pair[0].at) * 1e3;
        let per_token = whole / f64::from(pair[1].tokens.max(1));
        let touched = steps.at(run.at(pair[0].at))..=steps.at(run.at(pair[1].at));
        for step in touched {
            let pauses = all.entry(step).or_default();
            pauses.per_token.push(per_token);
            pauses.longest = pauses.longest.max(whole);
        }
    }
    for pauses in all.values_mut() {
        pauses.per_token.sort_by(f64::total_cmp);
    }
    let line = |value: &dyn Fn(&Pauses) -> f64| stretches(&all, steps.width, value);
    let median = line(&|pauses| percentile(&pauses.per_token, 50.0));
    let high = line(&|pauses| percentile(&pauses.per_token, 99.0));
    let longest = line(&|pauses| pauses.longest);
    let series = |class, stretches| Series {
        class,
        stretches,
        steps: true,
        look: Look::Line,
    };
    let all_values = [&median, &high, &longest].into_iter().flatten().flatten();
    let domain = Domain::of(all_values.map(|point| point.1)).from_zero();
    let chart = || {
        Chart {
        title: "Inter-token latency over the run",
        key: vec![
            Key::new("c2", "median"),
            Key::new("c3", "99th percentile"),
            Key::new("c4", "longest pause between two arrivals"),
        ],
        note: "a pause counts for as long as it lasts; where no stream was between two tokens there is no line".to_owned(),
        svg: lines(
            Canvas::new(WIDTH, 210.0),
            run.range(),
            ("seconds", "ITL ms"),
            domain,
            &[series("c4", &longest), series("c3", &high), series("c2", &median)],
        ),
    }
    };
    (!all.is_empty()).then(chart)
}

/// The values of neighbouring steps, each held for all of its step.
fn stretches(
    steps: &BTreeMap<usize, Pauses>,
    width: f64,
    value: &dyn Fn(&Pauses) -> f64,
) -> Vec<Vec<(f64, f64)>> {
    let mut all: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut next = None;
    for (step, pauses) in steps {
        let (from, value) = (*step as f64 * width, value(pauses));
        if next != Some(*step) {
            all.push(Vec::new());
        }
        next = Some(step + 1);
        let stretch = all.last_mut().into_iter();
        stretch.for_each(|stretch| stretch.extend([(from, value), (from + width, value)]));
    }
    all
}
