//! Distributions of requests, a curve per subject: which share is at most so large.

use bench::page::svg::{Canvas, LEFT, Scale, TOP, x_axis, y_axis};

use super::{colour, put};
use crate::statistics::quantile;

/// A curve is drawn through this many shares.
const STEPS: usize = 100;

/// One subject.
pub(in crate::report) struct Curve {
    /// Its place, which decides its colour.
    pub(in crate::report) subject: usize,
    /// The values of its requests.
    pub(in crate::report) values: Vec<f64>,
}

/// The chart; the tail beyond 99 % is cut.
pub(in crate::report) fn distributions(
    (of, title): (&str, &str),
    mut curves: Vec<Curve>,
) -> String {
    let canvas = Canvas::new(480.0, 260.0);
    let ends = curves.iter_mut().map(|curve| {
        (
            quantile(&mut curve.values, 0.0),
            quantile(&mut curve.values, 0.99),
        )
    });
    let (low, high) = ends.fold((f64::INFINITY, 0.0_f64), |(low, high), (first, last)| {
        (low.min(first), high.max(last))
    });
    let low = if low < high * 0.5 { 0.0 } else { low * 0.98 };
    let x = Scale::new((low, high * 1.02), (LEFT, canvas.right()));
    let y = Scale::new((0.0, 100.0), (canvas.bottom(), TOP));
    let mut out = x_axis(canvas, x, title) + &y_axis(canvas, y, &format!("share of {of} %"));
    for curve in &mut curves {
        curve.values.sort_by(f64::total_cmp);
        let mut path = String::new();
        for step in 0..=STEPS {
            let share = step as f64 / STEPS as f64;
            let start = if step == 0 { 'M' } else { 'L' };
            let at = share * (curve.values.len() - 1) as f64;
            let value = curve.values[at.round() as usize];
            put(
                &mut path,
                format_args!("{start}{:.1} {:.1}", x.at(value), y.at(share * 100.0)),
            );
        }
        put(
            &mut out,
            format_args!(
                "<path class=\"line {}\" d=\"{path}\"/>",
                colour(curve.subject)
            ),
        );
    }
    canvas.close(title, &out)
}
