//! Throughput against latency: a point per run. A line joins loads only where they differ in
//! nothing but their intensity.

use bench::page::svg::{Canvas, Domain, LEFT, Scale, TOP, escaped, short, x_axis, y_axis};

use super::{circle, colour, cross, put, span_from_zero};

/// One run.
pub(in crate::report) struct Mark {
    /// Its subject's place, which decides its colour.
    pub(in crate::report) subject: usize,
    /// The load: runs of one are averaged for the line.
    pub(in crate::report) load: String,
    /// The sweeps that the load may be a step of.
    pub(in crate::report) steps: Vec<Step>,
    /// Across.
    pub(in crate::report) x: f64,
    /// Up.
    pub(in crate::report) y: f64,
    /// Whether it was cold: it is crossed and the line does not know it.
    pub(in crate::report) cold: bool,
    /// What is said when it is pointed at.
    pub(in crate::report) words: String,
}

/// A load's place among loads that differ in their intensity alone.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::report) struct Step {
    /// What those loads have in common, and what they differ in.
    pub(in crate::report) sweep: String,
    /// How intense this one is.
    pub(in crate::report) intensity: f64,
}

/// A chart, and whether there are lines in it.
pub(in crate::report) struct Scatter {
    /// The drawing.
    pub(in crate::report) svg: String,
    /// Whether loads are joined.
    pub(in crate::report) joined: bool,
}

/// The chart.
pub(in crate::report) fn scatter((x_title, y_title): (&str, &str), marks: &[Mark]) -> Scatter {
    let canvas = Canvas::new(1000.0, 340.0);
    let x = Scale::new(
        span_from_zero(marks.iter().map(|mark| mark.x)),
        (LEFT, canvas.right()),
    );
    let domain = Domain::of(marks.iter().map(|mark| mark.y)).from_zero();
    let y = domain.scale((canvas.bottom(), TOP));
    let mut out = x_axis(canvas, x, x_title) + &y_axis(canvas, y, &domain.titled(y_title));
    let sweeps = sweeps(marks);
    let joined = !sweeps.is_empty();
    let mut labels = String::new();
    for (subject, means) in sweeps {
        let mut path = String::new();
        for (place, (intensity, across, up)) in means.into_iter().enumerate() {
            let start = if place == 0 { 'M' } else { 'L' };
            let (px, py) = (x.at(across), y.at(up));
            put(&mut path, format_args!("{start}{px:.1} {py:.1}"));
            let text = escaped(&short(intensity));
            put(
                &mut labels,
                format_args!(
                    "<text class=\"mark\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>",
                    px + 6.0,
                    py - 10.0
                ),
            );
        }
        let class = colour(subject);
        put(
            &mut out,
            format_args!("<path class=\"line {class}\" d=\"{path}\"/>"),
        );
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
    out.push_str(&labels);
    Scatter {
        svg: canvas.close(&format!("{y_title} against {x_title}"), &out),
        joined,
    }
}

/// The intensity of a load and the mean of its runs, across and up.
type Mean = (f64, f64, f64);

/// The means of loads of each subject and sweep, by intensity: beyond saturation throughput falls,
/// so it gives no order.
fn sweeps(marks: &[Mark]) -> Vec<(usize, Vec<Mean>)> {
    let mut names: Vec<(usize, &str)> = marks
        .iter()
        .flat_map(|mark| {
            mark.steps
                .iter()
                .map(|step| (mark.subject, step.sweep.as_str()))
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    let found = names.into_iter().filter_map(|(subject, sweep)| {
        let of_subject = marks
            .iter()
            .filter(|mark| mark.subject == subject && !mark.cold);
        let within: Vec<(&Mark, f64)> = of_subject
            .filter_map(|mark| {
                let step = mark.steps.iter().find(|step| step.sweep == sweep)?;
                Some((mark, step.intensity))
            })
            .collect();
        let mut loads: Vec<(&str, f64)> = within
            .iter()
            .map(|(mark, intensity)| (mark.load.as_str(), *intensity))
            .collect();
        loads.sort_by(|one, two| one.1.total_cmp(&two.1).then(one.0.cmp(two.0)));
        loads.dedup();
        let apart = loads.windows(2).all(|two| two[0].1 < two[1].1);
        let means = loads.iter().map(|(load, intensity)| {
            let of_load = within.iter().filter(|(mark, _)| mark.load == *load);
            let (mut across, mut up, mut count) = (0.0, 0.0, 0.0);
            for (mark, _) in of_load {
                across += mark.x;
                up += mark.y;
                count += 1.0;
            }
            (*intensity, across / count, up / count)
        });
        (loads.len() > 1 && apart).then(|| (subject, means.collect()))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(load: &str, step: Option<(&str, f64)>, (x, y): (f64, f64)) -> Mark {
        let steps = step.map(|(sweep, intensity)| Step {
            sweep: sweep.to_owned(),
            intensity,
        });
        Mark {
            subject: 0,
            load: load.to_owned(),
            steps: steps.into_iter().collect(),
            x,
            y,
            cold: false,
            words: String::new(),
        }
    }

    #[test]
    fn loads_that_differ_in_more_than_intensity_are_not_joined() {
        let marks = [
            mark("chat", Some(("chat", 4.0)), (100.0, 10.0)),
            mark("code", Some(("code", 4.0)), (200.0, 20.0)),
            mark("unknown", None, (300.0, 20.0)),
        ];
        let drawn = scatter(("tok/s", "ms"), &marks);
        assert!(!drawn.joined && !drawn.svg.contains("<path"));
    }

    #[test]
    fn a_sweep_is_joined_in_the_order_of_intensity() {
        let marks = [
            mark("a", Some(("chat", 1.0)), (100.0, 10.0)),
            mark("c", Some(("chat", 64.0)), (250.0, 90.0)),
            mark("b", Some(("chat", 16.0)), (300.0, 30.0)),
        ];
        let drawn = scatter(("tok/s", "ms"), &marks);
        let path = drawn.svg.split("d=\"").nth(1).unwrap();
        let across: Vec<f64> = path.split('"').next().unwrap()[1..]
            .split('L')
            .map(|point| point.split(' ').next().unwrap().parse().unwrap())
            .collect();
        assert!(drawn.joined);
        assert!(across[0] < across[2] && across[2] < across[1], "{across:?}");
        assert!(drawn.svg.contains(">64</text>"));
    }
}
