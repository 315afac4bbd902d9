//! The values of single runs, a row per subject, with their mean.

use bench::page::svg::{Canvas, Scale, TOP, escaped, x_axis};

use super::{Names, circle, colour, cross, in_both_widths, put, span};
use crate::statistics::mean;

/// One subject.
pub(in crate::report) struct Row {
    /// Its name.
    pub(in crate::report) name: String,
    /// Its place, which decides its colour.
    pub(in crate::report) subject: usize,
    /// Values, and what is said when each is pointed at.
    pub(in crate::report) values: Vec<(f64, String)>,
    /// Whether the first value was cold: it is crossed and does not count for the mean.
    pub(in crate::report) cold: bool,
}

/// The chart.
pub(in crate::report) fn dots(title: &str, rows: &[Row]) -> String {
    in_both_widths(|names| chart(title, rows, names))
}

fn chart(title: &str, rows: &[Row], names: Names) -> String {
    let (height, below_name) = match names {
        Names::Beside => (26.0, 0.0),
        Names::Above => (40.0, 14.0),
    };
    let canvas = Canvas::new(names.width(), TOP + height * rows.len() as f64 + 44.0);
    let all = rows
        .iter()
        .flat_map(|row| row.values.iter().map(|(value, _)| *value));
    let left = names.room_for(rows.iter().map(|row| row.name.as_str()), std::iter::empty());
    let x = Scale::new(span(all), (left, canvas.right()));
    let mut out = x_axis(canvas, x, title);
    for (place, row) in rows.iter().enumerate() {
        let middle = TOP + height * (place as f64 + 0.5);
        let y = middle + below_name / 2.0;
        let class = colour(row.subject);
        put(
            &mut out,
            format_args!(
                "<text class=\"mark\" x=\"0\" y=\"{:.1}\">{}</text>",
                middle + 4.0 - below_name / 2.0,
                escaped(&names.cut(&row.name))
            ),
        );
        let counted = row.values.iter().skip(usize::from(row.cold));
        let values: Vec<f64> = counted.map(|(value, _)| *value).collect();
        if values.len() > 1 {
            let middle = x.at(mean(&values));
            put(
                &mut out,
                format_args!(
                    "<line class=\"mean {class}\" x1=\"{middle:.1}\" y1=\"{:.1}\" x2=\"{middle:.1}\" y2=\"{:.1}\"/>",
                    y - 9.0,
                    y + 9.0,
                ),
            );
        }
        for (place, (value, words)) in row.values.iter().enumerate() {
            let at = (x.at(*value), y);
            out.push_str(&if row.cold && place == 0 {
                cross(&class, at, words)
            } else {
                circle(&format!("point {class}"), at, words)
            });
        }
    }
    canvas.close(title, &out)
}
