//! Times of requests: their distributions, and each over the run.

use super::{Chart, Key, Span, objective, sampled};
use crate::measure::goodput::ObjectiveKey;
use crate::measure::timing::Timing;
use crate::page::PageContent;
use crate::page::svg::{Canvas, Curve, Domain, Limit, Point, cdf, percentiles, points, short};

/// A cloud of more points than this shows a part of them.
const MOST_POINTS: usize = 3000;
/// The share of them that goes to the largest values.
const EXTREMES: usize = MOST_POINTS / 10;
/// From this difference on, times from being due are shown beside times from being sent, in seconds.
const LATE: f64 = 0.001;
/// The colour of times from being due.
const DUE: &str = "c2";

/// A time of a request, counted from being sent and from being due.
#[derive(Clone, Copy)]
pub(super) struct Timed {
    title: &'static str,
    over_time: &'static str,
    axis: &'static str,
    class: &'static str,
    key: ObjectiveKey,
    sent: fn(&Timing) -> f64,
    due: fn(&Timing) -> f64,
}

/// To the first token.
pub(super) const FIRST_TOKEN: Timed = Timed {
    title: "Time to first token",
    over_time: "Time to first token over the run",
    axis: "TTFT ms",
    class: "c1",
    key: ObjectiveKey::Ttft,
    sent: |timing| timing.ttft,
    due: |timing| timing.scheduled_ttft,
};

/// To the last line.
pub(super) const WHOLE: Timed = Timed {
    title: "Whole request",
    over_time: "Whole request over the run",
    axis: "E2E ms",
    class: "c3",
    key: ObjectiveKey::E2el,
    sent: |timing| timing.e2e,
    due: |timing| timing.scheduled_e2e,
};

/// Whether requests waited for their turn, and the time that they waited counts.
fn due_counts(content: &PageContent<'_>) -> bool {
    let late = |timing: &Timing| timing.scheduled_ttft - timing.ttft > LATE;
    content.counts_from_due && content.timings.iter().any(late)
}

/// All distributions.
pub(super) fn distributions(content: &PageContent<'_>) -> Vec<Chart> {
    let timings = content.timings;
    let gaps = timings.iter().flat_map(Timing::gaps).collect();
    let per_token = timings.iter().filter_map(Timing::tpot).collect();
    let bound = |key| objective(content, key);
    let charts = [
        timed(content, FIRST_TOKEN),
        chart(
            ("Inter-token latency", "ITL ms"),
            vec![("c2", "all gaps", gaps)],
            None,
        ),
        chart(
            ("Time per output token", "TPOT ms"),
            vec![("c4", "all requests", per_token)],
            bound(ObjectiveKey::Tpot),
        ),
        timed(content, WHOLE),
    ];
    charts.into_iter().flatten().collect()
}

fn timed(content: &PageContent<'_>, timed: Timed) -> Option<Chart> {
    let values = |time: fn(&Timing) -> f64| content.timings.iter().map(time).collect();
    let mut curves = vec![(timed.class, "from being sent", values(timed.sent))];
    if due_counts(content) {
        curves.push((DUE, "from being due", values(timed.due)));
    }
    let bound = objective(content, timed.key);
    chart((timed.title, timed.axis), curves, bound)
}

/// Curves of seconds; the last one is what a bound is about.
fn chart(
    (title, axis): (&'static str, &str),
    mut curves: Vec<(&'static str, &str, Vec<f64>)>,
    bound: Option<f64>,
) -> Option<Chart> {
    for (_, _, values) in &mut curves {
        for seconds in values.iter_mut() {
            *seconds *= 1e3;
        }
        values.sort_by(f64::total_cmp);
    }
    let judged = curves.last().map(|(_, _, values)| values.as_slice())?;
    let limit = bound.map(|bound| {
        let kept = judged.partition_point(|value| *value <= bound);
        let share = kept as f64 / judged.len().max(1) as f64 * 100.0;
        Limit {
            value: bound,
            words: format!("SLO {} ms: {share:.1} % within", short(bound)),
        }
    });
    let drawn: Vec<Curve<'_>> = curves
        .iter()
        .map(|(class, _, sorted)| Curve { class, sorted })
        .collect();
    let key = curves
        .iter()
        .map(|(class, name, sorted)| Key::new(class, format!("{name}: {}", percentiles(sorted))));
    let canvas = Canvas::new(470.0, 240.0);
    (!judged.is_empty()).then(|| Chart {
        title,
        key: key.collect(),
        note: String::new(),
        svg: cdf(canvas, (axis, "share %"), &drawn, limit.as_ref()),
    })
}

/// A time of each request, where it was sent or due.
pub(super) fn timeline(content: &PageContent<'_>, run: Span, timed: Timed) -> Chart {
    let from_due = due_counts(content);
    let (time, word, class) = if from_due {
        (timed.due, "due", DUE)
    } else {
        (timed.sent, "sent", timed.class)
    };
    let point = |timing: &Timing| {
        let start = if from_due {
            timing.scheduled
        } else {
            timing.sent
        };
        let (moment, value) = (run.at(start), time(timing) * 1e3);
        Point {
            moment,
            value,
            words: format!("{word} at {moment:.2} s: {value:.1} ms"),
        }
    };
    let mut all: Vec<Point> = content.timings.iter().map(point).collect();
    let limit = objective(content, timed.key).map(|bound| Limit {
        value: bound,
        words: format!("SLO {} ms", short(bound)),
    });
    let values = all.iter().map(|point| point.value);
    let domain = Domain::of(values.chain(limit.as_ref().map(|limit| limit.value))).from_zero();
    let count = all.len();
    if count > MOST_POINTS {
        all.sort_by(|one, two| two.value.total_cmp(&one.value));
        let rest = all.split_off(EXTREMES);
        let mut chosen: Vec<Point> = Vec::with_capacity(MOST_POINTS);
        chosen.append(&mut all);
        chosen.extend(evenly(rest, MOST_POINTS - EXTREMES));
        all = chosen;
    }
    let shown = all.len();
    let part =
        format!("{shown} of {count} requests: the slowest {EXTREMES}, the rest evenly chosen");
    let title = format!("{word} at, seconds");
    Chart {
        title: timed.over_time,
        key: Vec::new(),
        note: if shown < count { part } else { String::new() },
        svg: points(
            Canvas::new(960.0, 190.0),
            (run.range(), domain),
            (&title, timed.axis),
            (class, &all),
            limit.as_ref(),
        ),
    }
}

/// At most `most` points, evenly chosen over the run.
fn evenly(mut points: Vec<Point>, most: usize) -> Vec<Point> {
    points.sort_by(|one, two| one.moment.total_cmp(&two.moment));
    let places: Vec<usize> = (0..points.len()).collect();
    let chosen: std::collections::BTreeSet<usize> = sampled(&places, most).copied().collect();
    let kept = points.into_iter().enumerate();
    kept.filter(|(place, _)| chosen.contains(place))
        .map(|(_, point)| point)
        .collect()
}
