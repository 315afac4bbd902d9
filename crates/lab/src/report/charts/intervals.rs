//! Effects with their intervals, one below the other. Better is to the right for every metric.

use bench::page::svg::{Canvas, Scale, TOP, escaped, short};

use super::{Names, in_both_widths, put, side, span};
use crate::metric::Better;
use crate::verdict::{Verdict, percent};

/// One effect.
pub(in crate::report) struct Effect {
    /// The arm.
    pub(in crate::report) name: String,
    /// What was compared.
    pub(in crate::report) what: String,
    /// Which way the metric improves.
    pub(in crate::report) better: Better,
    /// How large it is, as a share.
    pub(in crate::report) size: f64,
    /// Its interval, when there is one.
    pub(in crate::report) interval: Option<(f64, f64)>,
    /// Runs of both arms.
    pub(in crate::report) runs: (usize, usize),
    /// What it means.
    pub(in crate::report) verdict: Verdict,
    /// What is said when it is pointed at.
    pub(in crate::report) words: String,
}

impl Effect {
    /// The colour of the verdict: a class of the page.
    fn class(&self) -> &'static str {
        match self.verdict {
            Verdict::Better => "good",
            Verdict::Worse => "bad",
            Verdict::Different => "c1",
            _ => "none",
        }
    }

    /// The interval between runs; what a single run spreads by within itself is none.
    fn known(&self) -> Option<(f64, f64)> {
        self.interval
            .filter(|_| self.verdict != Verdict::CannotTell)
    }

    /// The place of a share of this metric: percent, for the better to the right.
    fn place(&self, share: f64) -> f64 {
        match self.better {
            Better::Lower => -100.0 * share,
            Better::Higher | Better::Neither => 100.0 * share,
        }
    }

    /// The size, and why it has no interval.
    fn label(&self) -> String {
        let size = percent(self.size);
        match (self.known(), self.runs) {
            (Some(_), _) => size,
            (None, (1, 1)) => format!("{size} · one run each: no interval"),
            (None, (first, second)) if first.min(second) < 2 => {
                format!("{size} · {first} and {second} runs: no interval")
            }
            (None, _) => format!("{size} · no interval"),
        }
    }
}

/// Effects of B against A; those of metrics that are neither good nor bad in a chart of their own.
pub(in crate::report) fn intervals(effects: &[Effect]) -> String {
    let (neutral, judged): (Vec<&Effect>, Vec<&Effect>) = effects
        .iter()
        .partition(|effect| effect.better == Better::Neither);
    let draw = |effects: Vec<&Effect>, ends| {
        if effects.is_empty() {
            return String::new();
        }
        in_both_widths(|names| chart(&effects, names, ends))
    };
    draw(judged, ["← B is worse", "B is better →"])
        + &draw(neutral, ["← B is lower", "B is higher →"])
}

fn chart(effects: &[&Effect], names: Names, ends: [&str; 2]) -> String {
    let row = match names {
        Names::Beside => 34.0,
        Names::Above => 60.0,
    };
    let canvas = Canvas::new(names.width(), TOP + row * effects.len() as f64 + 44.0);
    let places = effects.iter().flat_map(|effect| {
        let (low, high) = effect.known().unwrap_or((effect.size, effect.size));
        [low, high, effect.size].map(|share| effect.place(share))
    });
    let lines: Vec<String> = effects
        .iter()
        .map(|effect| names.cut_smaller(&effect.what, side(effect.better)))
        .collect();
    let left = names.room_for(
        effects.iter().map(|effect| effect.name.as_str()),
        lines.iter().map(String::as_str),
    );
    let x = Scale::new(span(places.chain([0.0])), (left, canvas.right()));
    let mut out = axis(canvas, x, left, ends);
    for (place, (effect, line)) in effects.iter().zip(&lines).enumerate() {
        let top = TOP + row * place as f64;
        put(
            &mut out,
            format_args!(
                "<g><title>{}</title><text class=\"mark\" x=\"0\" y=\"{:.1}\">{}</text>\
                 <text x=\"0\" y=\"{:.1}\">{}</text>",
                escaped(&effect.words),
                top + 15.0,
                escaped(&names.cut(&effect.name)),
                top + 28.0,
                escaped(line),
            ),
        );
        let y = match names {
            Names::Beside => top + 0.5 * row,
            Names::Above => top + 50.0,
        };
        mark(&mut out, effect, (x, y), canvas);
        out.push_str("</g>");
    }
    canvas.close("effects with their intervals", &out)
}

/// Ticks without signs, as the same side is more of one metric and less of another.
fn axis(canvas: Canvas, x: Scale, left: f64, [low, high]: [&str; 2]) -> String {
    let (bottom, right) = (canvas.bottom(), canvas.right());
    let mut out = String::new();
    let room = ((right - left) / 80.0).clamp(3.0, 9.0);
    for tick in x.ticks(room as usize) {
        let (at, text) = (x.at(tick), short(tick.abs()));
        let class = if tick.abs() < 1e-9 { "zero" } else { "grid" };
        put(
            &mut out,
            format_args!(
                "<line class=\"{class}\" x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom:.1}\"/>\
                 <text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text} %</text>",
                bottom + 14.0
            ),
        );
    }
    let y = bottom + 30.0;
    put(
        &mut out,
        format_args!(
            "<text class=\"mark\" x=\"{left:.1}\" y=\"{y:.1}\">{low}</text>\
             <text class=\"mark\" x=\"{right:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{high}</text>"
        ),
    );
    out
}

/// An effect: a dot on its interval; a ring where there is none.
fn mark(out: &mut String, effect: &Effect, (x, y): (Scale, f64), canvas: Canvas) {
    let class = effect.class();
    let dot = if let Some((low, high)) = effect.known() {
        let (from, to) = (x.at(effect.place(low)), x.at(effect.place(high)));
        put(
            out,
            format_args!(
                "<line class=\"reach {class}\" x1=\"{from:.1}\" y1=\"{y:.1}\" x2=\"{to:.1}\" y2=\"{y:.1}\"/>"
            ),
        );
        "dot"
    } else {
        "ring"
    };
    let (at, label) = (x.at(effect.place(effect.size)), effect.label());
    let half = label.chars().count() as f64 * 3.4;
    let anchor = match at {
        at if at + half > canvas.right() => "end",
        at if at - half < x.at(f64::NEG_INFINITY) => "start",
        _ => "middle",
    };
    put(
        out,
        format_args!(
            "<circle class=\"{dot} {class}\" cx=\"{at:.1}\" cy=\"{y:.1}\" r=\"4.5\"/>\
             <text class=\"mark\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{label}</text>",
            y - 8.0,
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(better: Better, size: f64, runs: usize) -> Effect {
        let known = runs > 1;
        Effect {
            name: "b".to_owned(),
            what: "metric".to_owned(),
            better,
            size,
            interval: Some((size - 0.01, size + 0.01)),
            runs: (runs, runs),
            verdict: if known {
                Verdict::Better
            } else {
                Verdict::CannotTell
            },
            words: String::new(),
        }
    }

    /// Where marks of a class stand in the wide drawing.
    fn places(svg: &str, open: &str) -> Vec<f64> {
        let wide = svg.split("</svg>").next().unwrap();
        let after = wide.split(open).skip(1);
        after
            .map(|rest| {
                let at = rest.split("cx=\"").nth(1).unwrap();
                at.split('"').next().unwrap().parse().unwrap()
            })
            .collect()
    }

    #[test]
    fn better_is_to_the_right_for_throughput_and_for_latency() {
        let effects = [
            effect(Better::Higher, 0.2, 3),
            effect(Better::Lower, -0.2, 3),
            effect(Better::Lower, 0.2, 3),
        ];
        let svg = intervals(&effects);
        let found = places(&svg, "<circle class=\"dot");
        assert!((found[0] - found[1]).abs() < 0.2, "{found:?}");
        assert!(found[2] < found[0], "{found:?}");
        for words in ["← B is worse", "B is better →", "+20.0 %", "−20.0 %"] {
            assert!(svg.contains(words), "{words}");
        }
        assert!(!svg.contains(">-20 %<") && !svg.contains("B is lower"));
    }

    #[test]
    fn metrics_that_are_neither_good_nor_bad_have_a_chart_of_their_own() {
        let svg = intervals(&[
            effect(Better::Higher, 0.2, 3),
            effect(Better::Neither, 0.1, 3),
        ]);
        assert_eq!(svg.matches("<svg").count(), 4, "two charts in two widths");
        assert!(svg.contains("B is better →") && svg.contains("B is higher →"));
    }

    #[test]
    fn single_runs_are_rings_that_say_they_have_no_interval() {
        let svg = intervals(&[effect(Better::Higher, 0.094, 1)]);
        assert_eq!(places(&svg, "<circle class=\"ring").len(), 1);
        assert!(!svg.contains("class=\"dot") && !svg.contains("class=\"reach"));
        assert!(svg.contains("+9.4 % · one run each: no interval"));
    }
}
