//! Charts of many runs, as inline SVG in the colours of the page.

mod dots;
mod history;
mod intervals;
mod scatter;

pub(super) use dots::{Row, dots};
pub(super) use history::{Course, history};
pub(super) use intervals::{Effect, intervals};
pub(super) use scatter::{Mark, Step, scatter};

use std::fmt::{Arguments, Write as _};

use bench::page::svg::escaped;

use crate::columns::width;
use crate::metric::{Better, Metric};

/// A metric with its unit, and the side of an axis on which it is better.
pub(super) fn directed(metric: &Metric) -> String {
    let name = if metric.unit.is_empty() {
        metric.name.to_owned()
    } else {
        format!("{} ({})", metric.name, metric.unit)
    };
    match metric.better {
        Better::Higher => format!("{name}, higher is better →"),
        Better::Lower => format!("← {name}, lower is better"),
        Better::Neither => name,
    }
}

/// Which way a metric improves, as the end of a heading.
pub(super) fn side(better: Better) -> &'static str {
    match better {
        Better::Higher => " · higher is better",
        Better::Lower => " · lower is better",
        Better::Neither => "",
    }
}

/// Adds to a drawing.
fn put(out: &mut String, text: Arguments<'_>) {
    out.write_fmt(text)
        .expect("a string takes all that is written to it");
}

/// Where the names of rows stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    /// Left of the row.
    Beside,
    /// Above it, on a narrow screen.
    Above,
}

impl Names {
    /// Pixels of a chart.
    fn width(self) -> f64 {
        match self {
            Self::Beside => 1000.0,
            Self::Above => 380.0,
        }
    }

    /// Pixels that names need left of a chart, and smaller words below them.
    fn room_for<'a>(
        self,
        names: impl Iterator<Item = &'a str>,
        smaller: impl Iterator<Item = &'a str>,
    ) -> f64 {
        if self == Self::Above {
            return 14.0;
        }
        let widest = |longest: Option<usize>, letter: f64| longest.unwrap_or(0) as f64 * letter;
        let names = widest(names.map(|name| width(&self.cut(name))).max(), 7.0);
        let smaller = widest(smaller.map(width).max(), 6.0);
        (names.max(smaller) + 24.0).max(90.0)
    }

    /// A name as long as there is room for it.
    fn cut(self, name: &str) -> String {
        match self {
            Self::Beside => cut(name, 58),
            Self::Above => cut(name, 52),
        }
    }

    /// Smaller words with their end, or without it where there is no room for both.
    fn cut_smaller(self, words: &str, end: &str) -> String {
        let longest = match self {
            Self::Beside => 80,
            Self::Above => 58,
        };
        let whole = format!("{words}{end}");
        if width(&whole) <= longest {
            whole
        } else {
            cut(words, longest)
        }
    }
}

/// A name of at most this width; names differ at their ends more often than in the middle.
fn cut(name: &str, longest: usize) -> String {
    if width(name) <= longest {
        return name.to_owned();
    }
    let letters: Vec<char> = name.chars().collect();
    let start = within(letters.iter(), longest / 2);
    let end = within(letters.iter().rev(), longest / 2);
    let tail = &letters[letters.len() - end..];
    let parts = letters[..start].iter().chain(['…'].iter()).chain(tail);
    parts.collect()
}

/// A chart of rows drawn twice: the page shows the one that its width has room for.
fn in_both_widths(draw: impl Fn(Names) -> String) -> String {
    format!(
        "<div class=\"broad\">{}</div><div class=\"narrow\">{}</div>",
        draw(Names::Beside),
        draw(Names::Above)
    )
}

/// How many letters have room.
fn within<'a>(letters: impl Iterator<Item = &'a char>, room: usize) -> usize {
    let mut used = 0;
    let fitting = letters.take_while(|letter| {
        used += width(letter.encode_utf8(&mut [0; 4]));
        used <= room
    });
    fitting.count()
}

/// The class of a subject's colour. There are eight; after them marks are hollow and lines dashed.
pub(super) fn colour(subject: usize) -> String {
    let again = if subject / 8 % 2 == 1 { " again" } else { "" };
    format!("s{}{again}", subject % 8)
}

/// A run that counts, and what is said when it is pointed at.
fn circle(class: &str, (x, y): (f64, f64), words: &str) -> String {
    let words = escaped(words);
    format!(
        "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{words}</title></circle>"
    )
}

/// A run that was cold.
fn cross(class: &str, (x, y): (f64, f64), words: &str) -> String {
    let (x, y, words) = (x - 4.0, y - 4.0, escaped(words));
    format!(
        "<path class=\"cross {class}\" d=\"M{x:.1} {y:.1}l8 8m0 -8l-8 8\"><title>{words}</title></path>"
    )
}

/// The ends of values, a little apart from them; equal ends are moved apart.
fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values.filter(|value| value.is_finite()) {
        low = low.min(value);
        high = high.max(value);
    }
    if low > high {
        return (0.0, 1.0);
    }
    let margin = ((high - low) * 0.06).max(high.abs() * 0.01).max(1e-9);
    (low - margin, high + margin)
}

/// A span that begins at zero when that costs little room.
fn span_from_zero(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = span(values);
    if low > 0.0 && low < high * 0.6 {
        (0.0, high)
    } else {
        (low.max(0.0), high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut() {
        let cut = |name: &str| Names::Beside.cut(name);
        assert_eq!(cut("short 融合"), "short 融合");
        assert_eq!(cut(&"x".repeat(100)).chars().count(), 59);
        assert_eq!(cut(&"融".repeat(100)).chars().count(), 29);
        let long = format!("{}=1", "x".repeat(100));
        assert!(cut(&long).ends_with("x=1") && cut(&long).starts_with("xxx"));
    }

    #[test]
    fn which_way_a_metric_improves_is_left_out_before_its_load_is_cut() {
        let (load, end) = (
            "mean_ttft_ms · sharegpt n=1000 rate=20 cap=64",
            " · lower is better",
        );
        assert_eq!(Names::Beside.cut_smaller(load, end), format!("{load}{end}"));
        assert_eq!(Names::Above.cut_smaller(load, end), load);
    }

    #[test]
    fn spans_have_room() {
        let (low, high) = span([5.0, 5.0].into_iter());
        assert!(low < 5.0 && high > 5.0);
        assert_eq!(span([f64::NAN].into_iter()), (0.0, 1.0));
        assert!(span_from_zero([1.0, 10.0].into_iter()).0.abs() < 1e-12);
        assert!(span_from_zero([9.0, 10.0].into_iter()).0 > 8.0);
    }
}
