//! Values over time.

use super::{Canvas, LEFT, Scale, TOP, x_axis, y_axis};
use crate::put::put;

/// One line of a chart.
pub struct Series<'a> {
    /// The colour: a class of the page.
    pub class: &'a str,
    /// Moments and values, in order.
    pub points: &'a [(f64, f64)],
    /// Whether a value holds until the next.
    pub steps: bool,
}

/// A chart of lines, each filled down to zero.
pub fn lines(
    canvas: Canvas,
    span: (f64, f64),
    (x_title, y_title): (&str, &str),
    series: &[Series<'_>],
) -> String {
    let highest = series
        .iter()
        .flat_map(|series| series.points)
        .map(|point| point.1)
        .fold(0.0, f64::max);
    let x = Scale::new(span, (LEFT, canvas.right()));
    let y = Scale::new((0.0, highest * 1.05), (canvas.bottom(), TOP));
    let mut out = x_axis(canvas, x, x_title) + &y_axis(canvas, y, y_title);
    for series in series {
        let path = path(series, x, y);
        let (Some(first), Some(last)) = (series.points.first(), series.points.last()) else {
            continue;
        };
        put(
            &mut out,
            format_args!(
                "<path class=\"area {class}\" d=\"{path}L{:.1} {bottom:.1}L{:.1} {bottom:.1}Z\"/>\
             <path class=\"line {class}\" d=\"{path}\"/>",
                x.at(last.0),
                x.at(first.0),
                class = series.class,
                bottom = canvas.bottom(),
            ),
        );
    }
    canvas.close(y_title, &out)
}

fn path(series: &Series<'_>, x: Scale, y: Scale) -> String {
    let mut path = String::new();
    let mut before: Option<f64> = None;
    for (moment, value) in series.points {
        let (px, py) = (x.at(*moment), y.at(*value));
        match before {
            None => put(&mut path, format_args!("M{px:.1} {py:.1}")),
            Some(level) if series.steps => {
                put(
                    &mut path,
                    format_args!("L{px:.1} {level:.1}L{px:.1} {py:.1}"),
                );
            }
            Some(_) => put(&mut path, format_args!("L{px:.1} {py:.1}")),
        }
        before = Some(py);
    }
    path
}
