//! Distributions: which share of values is at most so large.

use super::axis::short;
use super::limit::upright;
use super::{Canvas, Domain, LEFT, Limit, Scale, TOP, x_axis, y_axis};
use crate::measure::percentile;
use crate::put::put;

/// Curves of more values than this are drawn through a part of them.
const MOST_STEPS: usize = 500;
/// The largest values that are drawn even so, each as its own step: the tail.
const TAIL: usize = 100;

/// One distribution.
pub struct Curve<'a> {
    /// The colour: a class of the page.
    pub class: &'a str,
    /// The values, sorted.
    pub sorted: &'a [f64],
}

/// A chart of cumulative shares, with a dot at each of the usual percentiles; no tail is cut.
pub fn cdf(
    canvas: Canvas,
    (x_title, y_title): (&str, &str),
    curves: &[Curve<'_>],
    limit: Option<&Limit>,
) -> String {
    let values = curves.iter().flat_map(|curve| curve.sorted.iter().copied());
    let domain = Domain::of(values.chain(limit.map(|limit| limit.value)));
    let x = domain.scale((LEFT, canvas.right()));
    let y = Scale::new((0.0, 100.0), (canvas.bottom(), TOP));
    let title = domain.titled(x_title);
    let mut out = x_axis(canvas, x, &title) + &y_axis(canvas, y, y_title);
    for curve in curves.iter().filter(|curve| !curve.sorted.is_empty()) {
        let (class, path) = (curve.class, steps(curve.sorted, x, y));
        put(
            &mut out,
            format_args!("<path class=\"line {class}\" d=\"{path}\"/>"),
        );
        for percent in [50.0, 90.0, 99.0] {
            let (px, py) = (x.at(percentile(curve.sorted, percent)), y.at(percent));
            put(
                &mut out,
                format_args!(
                    "<circle class=\"dot {class}\" cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"3.5\"/>"
                ),
            );
        }
    }
    if let Some(limit) = limit {
        out.push_str(&upright(canvas, x, limit));
    }
    canvas.close(x_title, &out)
}

/// The share of values up to each one, with a step at it.
fn steps(sorted: &[f64], x: Scale, y: Scale) -> String {
    let count = sorted.len();
    let mut path = format!("M{:.1} {:.1}", x.at(sorted[0]), y.at(0.0));
    let every = (count / MOST_STEPS).max(1);
    let tail = count.saturating_sub(TAIL);
    let drawn = (0..count).filter(|place| *place >= tail || (place + 1) % every == 0);
    for place in drawn {
        let share = (place + 1) as f64 / count as f64 * 100.0;
        put(
            &mut path,
            format_args!("H{:.1}V{:.1}", x.at(sorted[place]), y.at(share)),
        );
    }
    path
}

/// The usual percentiles and the largest of sorted values.
pub fn percentiles(sorted: &[f64]) -> String {
    let part = |percent: f64| short(percentile(sorted, percent));
    format!(
        "p50 {} · p90 {} · p99 {} · max {}",
        part(50.0),
        part(90.0),
        part(99.0),
        part(100.0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_reaches_all_of_it_at_the_largest_value_and_not_before() {
        let sorted: Vec<f64> = (0..2000).map(|_| 10.0).chain([1500.0]).collect();
        let curve = Curve {
            class: "c1",
            sorted: &sorted,
        };
        let canvas = Canvas::new(470.0, 230.0);
        let svg = cdf(canvas, ("ITL ms", "share %"), &[curve], None);
        assert!(svg.contains("ITL ms, log scale"));
        assert_eq!(percentiles(&sorted), "p50 10 · p90 10 · p99 10 · max 1500");
        let path = svg.split("<path class=\"line c1\" d=\"").nth(1).unwrap();
        let path = path.split('"').next().unwrap();
        let reached = |step: &str| step.split_once('V').unwrap().1.parse::<f64>().unwrap();
        let steps: Vec<&str> = path.split('H').skip(1).collect();
        let (last, before) = (steps[steps.len() - 1], steps[steps.len() - 2]);
        assert!((reached(last) - TOP).abs() < 0.05);
        let moved = |step: &str| step.split_once('V').unwrap().0.parse::<f64>().unwrap();
        assert!(moved(last) - moved(before) > 300.0, "{last} after {before}");
    }
}
