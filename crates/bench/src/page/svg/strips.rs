//! How often something happened over time: a row of columns for each kind of it.

use super::{Canvas, LEFT, Scale, TOP, escaped, x_axis};
use crate::put::put;

/// Pixels of a row.
const ROW: f64 = 44.0;
/// Pixels of its words.
const WORDS: f64 = 16.0;

/// One kind.
pub struct Strip<'a> {
    /// The colour: a class of the page.
    pub class: &'a str,
    /// What it is.
    pub name: &'a str,
    /// How often it happened in each part of the span.
    pub counts: Vec<usize>,
}

/// Rows below each other. The heights of columns are comparable between rows.
pub fn strips(width: f64, span: (f64, f64), x_title: &str, strips: &[Strip<'_>]) -> String {
    let canvas = Canvas::new(width, TOP + ROW * strips.len() as f64 + 38.0);
    let x = Scale::new(span, (LEFT, canvas.right()));
    let mut out = x_axis(canvas, x, x_title);
    let counts = strips.iter().flat_map(|strip| &strip.counts);
    let most = counts.copied().max().unwrap_or(0).max(1);
    for (place, strip) in strips.iter().enumerate() {
        let base = TOP + ROW * (place + 1) as f64;
        let room = Scale::new((0.0, most as f64), (0.0, ROW - WORDS - 4.0));
        let width = (canvas.right() - LEFT) / strip.counts.len().max(1) as f64;
        let all: usize = strip.counts.iter().sum();
        put(
            &mut out,
            format_args!(
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{base:.1}\" x2=\"{:.1}\" y2=\"{base:.1}\"/>\
                 <text class=\"mark\" x=\"{LEFT}\" y=\"{:.1}\">{} · {all}</text>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{most}</text>",
                canvas.right(),
                base - ROW + WORDS - 4.0,
                escaped(strip.name),
                LEFT - 6.0,
                base - ROW + WORDS + 12.0,
            ),
        );
        for (at, count) in strip
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
        {
            let height = room.at(*count as f64);
            put(
                &mut out,
                format_args!(
                    "<rect class=\"{}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\">\
                     <title>{count} × {}</title></rect>",
                    strip.class,
                    LEFT + at as f64 * width,
                    base - height,
                    width.max(1.5),
                    escaped(strip.name),
                ),
            );
        }
    }
    canvas.close(x_title, &out)
}
