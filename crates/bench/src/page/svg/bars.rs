//! Stretches of time, one row per request.

use super::{Canvas, LEFT, Scale, TOP, escaped, x_axis};
use crate::put::put;

/// A part of a bar.
pub struct Stretch {
    /// The colour: a class of the page.
    pub class: &'static str,
    /// From.
    pub from: f64,
    /// To.
    pub to: f64,
}

/// One request.
pub struct Bar {
    /// Its parts, in order.
    pub stretches: Vec<Stretch>,
    /// What is said about it when it is pointed at.
    pub words: String,
}

/// Bars below each other, the earliest on top.
pub fn bars(canvas: Canvas, span: (f64, f64), x_title: &str, bars: &[Bar]) -> String {
    let x = Scale::new(span, (LEFT, canvas.right()));
    let mut out = x_axis(canvas, x, x_title);
    let height = (canvas.bottom() - TOP) / bars.len().max(1) as f64;
    let thick = (height * 0.8).max(0.6);
    for (place, bar) in bars.iter().enumerate() {
        let y = TOP + place as f64 * height;
        put(
            &mut out,
            format_args!("<g><title>{}</title>", escaped(&bar.words)),
        );
        for stretch in &bar.stretches {
            let (from, to) = (x.at(stretch.from), x.at(stretch.to));
            put(
                &mut out,
                format_args!(
                    "<rect class=\"{}\" x=\"{from:.1}\" y=\"{y:.2}\" width=\"{:.1}\" height=\"{thick:.2}\"/>",
                    stretch.class,
                    (to - from).max(0.3),
                ),
            );
        }
        out.push_str("</g>");
    }
    canvas.close("requests", &out)
}
