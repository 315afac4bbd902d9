//! Small charts as inline SVG: no script, no library, colours from the page's variables.

mod axis;
mod bars;
mod cdf;
mod domain;
mod limit;
mod line;
mod points;
mod strips;

pub use axis::{Scale, short, x_axis, y_axis};
pub use bars::{Bar, Stretch, bars};
pub use cdf::{Curve, cdf, percentiles};
pub use domain::Domain;
pub use limit::Limit;
pub use line::{Look, Series, lines};
pub use points::{Point, points};
pub use strips::{Strip, strips};

/// The room of a chart and the part of it that shows data.
#[derive(Clone, Copy, Debug)]
pub struct Canvas {
    width: f64,
    height: f64,
}

/// From this width on a chart is not made narrower on a narrow screen: it is scrolled.
const WIDE: f64 = 600.0;
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

    /// Wraps what was drawn; a wide chart in a box of its own that scrolls.
    pub fn close(self, label: &str, content: &str) -> String {
        let (before, after) = if self.width > WIDE {
            ("<div class=\"scroll\">", "</div>")
        } else {
            ("", "")
        };
        format!(
            "{before}<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">{content}</svg>{after}",
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
