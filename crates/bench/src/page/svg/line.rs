//! Values over time.

use super::{Canvas, Domain, LEFT, Scale, TOP, x_axis, y_axis};
use crate::put::put;

/// One line of a chart.
pub struct Series<'a> {
    /// The colour: a class of the page.
    pub class: &'a str,
    /// Moments and values, in order. Between two stretches nothing is known and nothing is drawn.
    pub stretches: &'a [Vec<(f64, f64)>],
    /// Whether a value holds until the next.
    pub steps: bool,
    /// How it is drawn.
    pub look: Look,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// As a line.
    Line,
    /// Filled down to the axis, without a line.
    Area,
    /// Both.
    Filled,
}

/// A chart of lines.
pub fn lines(
    canvas: Canvas,
    span: (f64, f64),
    (x_title, y_title): (&str, &str),
    domain: Domain,
    series: &[Series<'_>],
) -> String {
    let x = Scale::new(span, (LEFT, canvas.right()));
    let y = domain.scale((canvas.bottom(), TOP));
    let mut out = x_axis(canvas, x, x_title) + &y_axis(canvas, y, &domain.titled(y_title));
    let bottom = canvas.bottom();
    for one in series {
        let class = one.class;
        for stretch in one.stretches {
            let (Some(first), Some(last)) = (stretch.first(), stretch.last()) else {
                continue;
            };
            let path = path(stretch, one.steps, x, y);
            if one.look != Look::Line {
                let (first, last) = (x.at(first.0), x.at(last.0));
                put(
                    &mut out,
                    format_args!(
                        "<path class=\"area {class}\" d=\"{path}L{last:.1} {bottom:.1}L{first:.1} {bottom:.1}Z\"/>"
                    ),
                );
            }
            if one.look != Look::Area {
                put(
                    &mut out,
                    format_args!("<path class=\"line {class}\" d=\"{path}\"/>"),
                );
            }
        }
    }
    canvas.close(y_title, &out)
}

fn path(points: &[(f64, f64)], steps: bool, x: Scale, y: Scale) -> String {
    let mut path = String::new();
    for (place, (moment, value)) in points.iter().enumerate() {
        let (px, py) = (x.at(*moment), y.at(*value));
        match (place, steps) {
            (0, _) => put(&mut path, format_args!("M{px:.1} {py:.1}")),
            (_, true) => put(&mut path, format_args!("H{px:.1}V{py:.1}")),
            (_, false) => put(&mut path, format_args!("L{px:.1} {py:.1}")),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_drawn_between_two_stretches() {
        let series = Series {
            class: "c1",
            stretches: &[vec![(0.0, 1.0), (1.0, 2.0)], vec![(8.0, 2.0), (9.0, 1.0)]],
            steps: false,
            look: Look::Line,
        };
        let (canvas, span) = (Canvas::new(960.0, 200.0), (0.0, 10.0));
        let domain = Domain::even(0.0, 2.0);
        let svg = lines(canvas, span, ("seconds", "ms"), domain, &[series]);
        assert_eq!(svg.matches("<path class=\"line c1\"").count(), 2);
        assert!(!svg.contains("class=\"area"));
    }
}
