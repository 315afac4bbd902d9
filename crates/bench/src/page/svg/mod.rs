//! Small charts as inline SVG: no script, no library, colours from the page's variables.

mod axis;
mod bars;
mod cdf;
mod line;
mod points;

pub(super) use axis::Scale;
pub(super) use bars::{Bar, Stretch, bars};
pub(super) use cdf::{Curve, cdf};
pub(super) use line::{Series, lines};
pub(super) use points::{Point, points};

use axis::{x_axis, y_axis};

/// The room of a chart and the part of it that shows data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Canvas {
    width: f64,
    height: f64,
}

const LEFT: f64 = 64.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 34.0;

impl Canvas {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self { width, height }
    }

    fn right(self) -> f64 {
        self.width - RIGHT
    }

    fn bottom(self) -> f64 {
        self.height - BOTTOM
    }

    /// Wraps what was drawn.
    fn close(self, label: &str, content: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">{content}</svg>",
            self.width,
            self.height,
            escaped(label),
        )
    }
}

/// Text that cannot be taken for markup.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            _ => safe.push(letter),
        }
    }
    safe
}
