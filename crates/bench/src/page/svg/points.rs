//! Single requests over time.

use super::limit::level;
use super::{Canvas, Domain, LEFT, Limit, Scale, TOP, escaped, x_axis, y_axis};
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

/// A chart of points. The domain is given, so that charts side by side can share one.
pub fn points(
    canvas: Canvas,
    (span, domain): ((f64, f64), Domain),
    (x_title, y_title): (&str, &str),
    (class, points): (&str, &[Point]),
    limit: Option<&Limit>,
) -> String {
    let x = Scale::new(span, (LEFT, canvas.right()));
    let y = domain.scale((canvas.bottom(), TOP));
    // A few points must be seen, a cloud must not be one blot.
    let radius = if points.len() < 200 { 3.5 } else { 2.2 };
    let mut out = x_axis(canvas, x, x_title) + &y_axis(canvas, y, &domain.titled(y_title));
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
    if let Some(limit) = limit {
        out.push_str(&level(canvas, y, limit));
    }
    canvas.close(y_title, &out)
}
