//! Single requests over time.

use super::{Canvas, LEFT, Scale, TOP, escaped, x_axis, y_axis};
use crate::put::put;

/// One request.
pub struct Point {
    /// When.
    pub moment: f64,
    /// How much.
    pub value: f64,
    /// What is said about it when it is pointed at.
    pub words: String,
}

/// A chart of points.
pub fn points(
    canvas: Canvas,
    span: (f64, f64),
    (x_title, y_title): (&str, &str),
    (class, points): (&str, &[Point]),
) -> String {
    let highest = points.iter().map(|point| point.value).fold(0.0, f64::max);
    let x = Scale::new(span, (LEFT, canvas.right()));
    let y = Scale::new((0.0, highest * 1.05), (canvas.bottom(), TOP));
    // A few points must be seen, a cloud must not be one blot.
    let radius = if points.len() < 200 { 3.5 } else { 2.2 };
    let mut out = x_axis(canvas, x, x_title) + &y_axis(canvas, y, y_title);
    for point in points {
        put(
            &mut out,
            format_args!(
                "<circle class=\"point {class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\"><title>{}</title></circle>",
                x.at(point.moment),
                y.at(point.value),
                escaped(&point.words),
            ),
        );
    }
    canvas.close(y_title, &out)
}
