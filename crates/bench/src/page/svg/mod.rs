//! Small charts as inline SVG: no script, no library, colours from the page's variables.

mod axis;
mod bars;
mod cdf;
mod line;
mod points;

pub use axis::{Scale, short, x_axis, y_axis};
pub use bars::{Bar, Stretch, bars};
pub use cdf::{Curve, cdf};
pub use line::{Series, lines};
pub use points::{Point, points};

/// The room of a chart and the part of it that shows data.
#[derive(Clone, Copy, Debug)]
pub struct Canvas {
    width: f64,
    height: f64,
}

/// Pixels left of the data.
pub const LEFT: f64 = 64.0;
const RIGHT: f64 = 14.0;
/// Pixels above the data.
pub const TOP: f64 = 10.0;
const BOTTOM: f64 = 34.0;

impl Canvas {
    /// Room of this size, in pixels.
    pub fn new(width: f64, height: f64) -> Self {
        Self { width, height }
    }

    /// Where data ends on the right.
    pub fn right(self) -> f64 {
        self.width - RIGHT
    }

    /// Where data ends at the bottom.
    pub fn bottom(self) -> f64 {
        self.height - BOTTOM
    }

    /// Wraps what was drawn.
    pub fn close(self, label: &str, content: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">{content}</svg>",
            self.width,
            self.height,
            escaped(label),
        )
    }
}

/// Text that cannot be taken for markup.
pub fn escaped(text: &str) -> String {
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
