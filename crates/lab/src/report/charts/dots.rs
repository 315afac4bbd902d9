//! The values of single runs, a row per subject, with their mean.

use bench::page::svg::{Canvas, Scale, TOP, escaped, x_axis};

use super::{circle, colour, cross, cut, put, room_for, span};
use crate::statistics::mean;

const ROW: f64 = 26.0;

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
    let canvas = Canvas::new(1000.0, TOP + ROW * rows.len() as f64 + 44.0);
    let all = rows
        .iter()
        .flat_map(|row| row.values.iter().map(|(value, _)| *value));
    let names = room_for(rows.iter().map(|row| row.name.as_str()));
    let x = Scale::new(span(all), (names, canvas.right()));
    let mut out = x_axis(canvas, x, title);
    for (place, row) in rows.iter().enumerate() {
        let y = TOP + ROW * (place as f64 + 0.5);
        let class = colour(row.subject);
        put(
            &mut out,
            format_args!(
                "<text class=\"mark\" x=\"0\" y=\"{:.1}\">{}</text>",
                y + 4.0,
                escaped(&cut(&row.name))
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
