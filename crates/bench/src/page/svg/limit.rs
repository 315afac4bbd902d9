//! A bound that values should keep, drawn as a line across a chart.

use super::{Canvas, LEFT, Scale, TOP, escaped};

/// A bound.
pub struct Limit {
    /// The most.
    pub value: f64,
    /// What it is.
    pub words: String,
}

/// The bound of a horizontal axis. Its words stand on the side that has more room.
pub(super) fn upright(canvas: Canvas, scale: Scale, limit: &Limit) -> String {
    let (x, bottom) = (scale.at(limit.value), canvas.bottom());
    let (anchor, place) = if x > f64::midpoint(LEFT, canvas.right()) {
        ("end", x - 5.0)
    } else {
        ("start", x + 5.0)
    };
    format!(
        "<line class=\"limit\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\"/>\
         <text class=\"mark\" x=\"{place:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
        f64::midpoint(TOP, bottom),
        escaped(&limit.words),
    )
}

/// The bound of a vertical axis.
pub(super) fn level(canvas: Canvas, scale: Scale, limit: &Limit) -> String {
    let (y, right) = (scale.at(limit.value), canvas.right());
    format!(
        "<line class=\"limit\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right:.1}\" y2=\"{y:.1}\"/>\
         <text class=\"mark\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        right - 4.0,
        y - 4.0,
        escaped(&limit.words),
    )
}
