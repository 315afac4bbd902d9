//! Distributions: which share of values is at most so large.

use super::axis::short;
use super::{Canvas, LEFT, Scale, TOP, x_axis, y_axis};
use crate::measure::percentile;
use crate::put::put;

/// A curve is drawn through this many quantiles.
const STEPS: usize = 200;

/// One distribution.
pub struct Curve<'a> {
    /// The colour: a class of the page.
    pub class: &'a str,
    /// The values, sorted.
    pub sorted: &'a [f64],
}

/// A chart of cumulative shares with the usual percentiles marked; the tail beyond 99.9 % is cut.
pub fn cdf(canvas: Canvas, x_title: &str, curve: &Curve<'_>) -> String {
    let highest = percentile(curve.sorted, 99.9);
    let lowest = percentile(curve.sorted, 0.0);
    let low = if lowest < highest * 0.5 {
        0.0
    } else {
        lowest * 0.98
    };
    let x = Scale::new((low, highest * 1.02), (LEFT, canvas.right()));
    let y = Scale::new((0.0, 100.0), (canvas.bottom(), TOP));
    let mut out = x_axis(canvas, x, x_title) + &y_axis(canvas, y, "share %");
    let mut path = String::new();
    for step in 0..=STEPS {
        let percent = step as f64 / STEPS as f64 * 100.0;
        let start = if step == 0 { 'M' } else { 'L' };
        let px = x.at(percentile(curve.sorted, percent));
        put(
            &mut path,
            format_args!("{start}{px:.1} {:.1}", y.at(percent)),
        );
    }
    put(
        &mut out,
        format_args!("<path class=\"line {}\" d=\"{path}\"/>", curve.class),
    );
    let mut words = Vec::new();
    for percent in [50.0, 90.0, 99.0] {
        let value = percentile(curve.sorted, percent);
        let (px, py) = (x.at(value), y.at(percent));
        put(
            &mut out,
            format_args!(
                "<circle class=\"dot {}\" cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"3.5\"/>",
                curve.class
            ),
        );
        words.push(format!("p{percent:.0} {}", short(value)));
    }
    // Below a cumulative curve its right end is always empty.
    put(
        &mut out,
        format_args!(
            "<text class=\"mark\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            canvas.right() - 4.0,
            canvas.bottom() - 8.0,
            words.join(" · "),
        ),
    );
    canvas.close(x_title, &out)
}
