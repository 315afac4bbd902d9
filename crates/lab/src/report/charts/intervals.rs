//! Effects with their intervals, one below the other.

use bench::page::svg::{Canvas, Scale, TOP, escaped, x_axis};

use super::{cut, put, room_for, span};
use crate::verdict::{Verdict, percent};

const ROW: f64 = 34.0;

/// One effect.
pub(in crate::report) struct Effect {
    /// What was compared.
    pub(in crate::report) name: String,
    /// How large it is, as a share.
    pub(in crate::report) size: f64,
    /// Its interval, when there is one.
    pub(in crate::report) interval: Option<(f64, f64)>,
    /// What it means.
    pub(in crate::report) verdict: Verdict,
    /// What is said when it is pointed at.
    pub(in crate::report) words: String,
}

/// The colour of a verdict: a class of the page.
fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "good",
        Verdict::Worse => "bad",
        Verdict::Different => "c1",
        Verdict::NoDifference | Verdict::CannotTell => "none",
    }
}

/// Effects of B against A; zero is marked.
pub(in crate::report) fn intervals(effects: &[Effect]) -> String {
    let canvas = Canvas::new(1000.0, TOP + ROW * effects.len() as f64 + 44.0);
    let ends = effects.iter().flat_map(|effect| {
        let (low, high) = effect.interval.unwrap_or((effect.size, effect.size));
        [low * 100.0, high * 100.0, effect.size * 100.0]
    });
    let (low, high) = span(ends.chain([0.0]));
    let names = room_for(effects.iter().flat_map(|effect| effect.name.lines()));
    let x = Scale::new((low, high), (names, canvas.right()));
    let mut out = x_axis(canvas, x, "B against A, %");
    let zero = x.at(0.0);
    let bottom = canvas.bottom();
    put(
        &mut out,
        format_args!(
            "<line class=\"zero\" x1=\"{zero:.1}\" y1=\"{TOP}\" x2=\"{zero:.1}\" y2=\"{bottom:.1}\"/>"
        ),
    );
    for (place, effect) in effects.iter().enumerate() {
        let y = TOP + ROW * (place as f64 + 0.5);
        let class = class(effect.verdict);
        let (first, rest) = effect.name.split_once('\n').unwrap_or((&effect.name, ""));
        put(
            &mut out,
            format_args!(
                "<g><title>{}</title><text class=\"mark\" x=\"0\" y=\"{:.1}\">{}</text>\
                 <text x=\"0\" y=\"{:.1}\">{}</text>",
                escaped(&effect.words),
                y - 2.0,
                escaped(&cut(first)),
                y + 11.0,
                escaped(&cut(rest)),
            ),
        );
        if let Some((low, high)) = effect.interval {
            put(
                &mut out,
                format_args!(
                    "<line class=\"reach {class}\" x1=\"{:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\"/>",
                    x.at(low * 100.0),
                    x.at(high * 100.0),
                ),
            );
        }
        let at = x.at(effect.size * 100.0);
        put(
            &mut out,
            format_args!(
                "<circle class=\"dot {class}\" cx=\"{at:.1}\" cy=\"{y:.1}\" r=\"4.5\"/>\
                 <text class=\"mark\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text></g>",
                y - 8.0,
                percent(effect.size),
            ),
        );
    }
    canvas.close("effects with their intervals", &out)
}
