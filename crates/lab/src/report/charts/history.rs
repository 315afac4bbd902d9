//! A metric over the runs of a subject, with the point at which its level changed.

use bench::page::svg::{Canvas, LEFT, Scale, TOP, escaped, x_axis, y_axis};

use super::{put, span_from_zero};

/// The course of one metric.
pub(in crate::report) struct Course {
    /// The unit and name.
    pub(in crate::report) title: String,
    /// Values in order, and what is said when each is pointed at.
    pub(in crate::report) values: Vec<(f64, String)>,
    /// The first run of a new level, and whether that is a change for the worse.
    pub(in crate::report) shift: Option<(usize, bool)>,
}

/// The chart.
pub(in crate::report) fn history(course: &Course) -> String {
    let canvas = Canvas::new(1000.0, 200.0);
    let last = course.values.len().max(2) as f64;
    let x = Scale::new((0.5, last + 0.5), (LEFT, canvas.right()));
    let values = course.values.iter().map(|(value, _)| *value);
    let y = Scale::new(span_from_zero(values), (canvas.bottom(), TOP));
    let mut out = x_axis(canvas, x, "run") + &y_axis(canvas, y, &course.title);
    if let Some((at, worse)) = course.shift {
        let class = if worse { "bad" } else { "good" };
        let px = x.at(at as f64 + 0.5);
        put(
            &mut out,
            format_args!(
                "<line class=\"reach {class}\" x1=\"{px:.1}\" y1=\"{TOP}\" x2=\"{px:.1}\" y2=\"{:.1}\"/>",
                canvas.bottom(),
            ),
        );
    }
    let mut path = String::new();
    for (place, (value, _)) in course.values.iter().enumerate() {
        let start = if place == 0 { 'M' } else { 'L' };
        put(
            &mut path,
            format_args!("{start}{:.1} {:.1}", x.at(place as f64 + 1.0), y.at(*value)),
        );
    }
    put(
        &mut out,
        format_args!("<path class=\"line s0\" d=\"{path}\"/>"),
    );
    for (place, (value, words)) in course.values.iter().enumerate() {
        put(
            &mut out,
            format_args!(
                "<circle class=\"dot s0\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"><title>{}</title></circle>",
                x.at(place as f64 + 1.0),
                y.at(*value),
                escaped(words),
            ),
        );
    }
    canvas.close(&course.title, &out)
}
