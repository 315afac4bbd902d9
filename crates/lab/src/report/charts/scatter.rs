//! Throughput against latency: a point per run, a line through the loads of a subject.

use bench::page::svg::{Canvas, LEFT, Scale, TOP, x_axis};

use super::decades::Reach;
use super::{circle, colour, cross, put, span_from_zero};

/// One run.
pub(in crate::report) struct Mark {
    /// Its subject's place, which decides its colour.
    pub(in crate::report) subject: usize,
    /// The load: runs of one are averaged for the line.
    pub(in crate::report) load: String,
    /// What loads have in common that differ in their intensity alone: a line goes through them.
    pub(in crate::report) sweep: String,
    /// Across.
    pub(in crate::report) x: f64,
    /// Up.
    pub(in crate::report) y: f64,
    /// Whether it was cold: it is crossed and the line does not know it.
    pub(in crate::report) cold: bool,
    /// What is said when it is pointed at.
    pub(in crate::report) words: String,
}

/// The chart.
pub(in crate::report) fn scatter((x_title, y_title): (&str, &str), marks: &[Mark]) -> String {
    let canvas = Canvas::new(1000.0, 340.0);
    let x = Scale::new(
        span_from_zero(marks.iter().map(|mark| mark.x)),
        (LEFT, canvas.right()),
    );
    let y = Reach::of(marks.iter().map(|mark| mark.y), (canvas.bottom(), TOP));
    let mut out = x_axis(canvas, x, x_title) + &y.axis(canvas, y_title);
    let mut sweeps: Vec<(usize, &str)> = marks
        .iter()
        .map(|mark| (mark.subject, mark.sweep.as_str()))
        .collect();
    sweeps.sort_unstable();
    sweeps.dedup();
    for (subject, sweep) in sweeps {
        let of_sweep = marks
            .iter()
            .filter(|mark| mark.subject == subject && mark.sweep == sweep && !mark.cold);
        let path = line(&of_sweep.collect::<Vec<_>>(), x, y);
        if !path.is_empty() {
            put(
                &mut out,
                format_args!("<path class=\"line {}\" d=\"{path}\"/>", colour(subject)),
            );
        }
    }
    for mark in marks {
        let place = (x.at(mark.x), y.at(mark.y));
        let class = colour(mark.subject);
        out.push_str(&if mark.cold {
            cross(&class, place, &mark.words)
        } else {
            circle(&format!("dot {class}"), place, &mark.words)
        });
    }
    canvas.close(&format!("{y_title} against {x_title}"), &out)
}

/// Through the means of loads, from the lowest throughput to the highest.
fn line(marks: &[&Mark], x: Scale, y: Reach) -> String {
    let mut loads: Vec<&str> = marks.iter().map(|mark| mark.load.as_str()).collect();
    loads.sort_unstable();
    loads.dedup();
    let means = loads.into_iter().map(|load| {
        let of_load = marks.iter().filter(|mark| mark.load == load);
        let (mut across, mut up, mut count) = (0.0, 0.0, 0.0);
        for mark in of_load {
            across += mark.x;
            up += mark.y;
            count += 1.0;
        }
        (across / count, up / count)
    });
    let mut means: Vec<(f64, f64)> = means.collect();
    if means.len() < 2 {
        return String::new();
    }
    means.sort_by(|one, two| one.0.total_cmp(&two.0));
    let mut path = String::new();
    for (place, (across, up)) in means.into_iter().enumerate() {
        let start = if place == 0 { 'M' } else { 'L' };
        put(
            &mut path,
            format_args!("{start}{:.1} {:.1}", x.at(across), y.at(up)),
        );
    }
    path
}
