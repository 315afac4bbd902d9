//! `lab trend`: one metric over time.

use flags::{Command, Group, Parsed, Positional, Takes};

use super::{Console, Failure, STORE, arms, open_store};
use crate::columns::Columns;
use crate::history::{History, histories};
use crate::metric::{Better, written};
use crate::store::Selection;
use crate::verdict::{chance, percent};

pub(super) const COMMAND: Command<'static> = Command {
    program: "peregrine lab trend",
    about: "Shows a metric over time for every subject and load, and where its level changed.",
    positionals: &[
        Positional {
            name: "METRIC",
            takes: Takes::One,
            help: "Its name, such as request_throughput.",
        },
        Positional {
            name: "SELECTION",
            takes: Takes::Maybe(""),
            help: "Which runs (see `lab list`); all when left out.",
        },
    ],
    groups: &[Group {
        title: "options",
        flags: &[STORE],
    }],
};

/// A change of level is told when chance explains it less often than this.
const TOLD_BELOW: f64 = 0.05;

pub(super) fn run(parsed: &Parsed, console: &mut Console<'_>) -> Result<u8, Failure> {
    let store = open_store(parsed, console)?;
    let metric = arms::metric(&parsed.words()[0])?;
    let selection = parsed.words().get(1).map(|text| text.parse::<Selection>());
    let selection = selection.transpose()?;
    let found = histories(&store, metric.name, selection.as_ref())?;
    let number = |value: f64| written(metric.name, value);
    let mut table = Columns::headed(&[
        "subject", "load", "runs", "first", "last", "lowest", "highest", "course",
    ]);
    for history in &found {
        let values = history.values();
        let (first, last) = (values[0], values[values.len() - 1]);
        let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        table.add(vec![
            history.subject.clone(),
            history.load.clone(),
            values.len().to_string(),
            number(first),
            number(last),
            number(lowest),
            number(highest),
            course(&values),
        ]);
    }
    console.show(&table.text());
    for history in &found {
        if let Some(sentence) = change(history, metric.better, &number) {
            console.say(&format!("! {sentence}"));
        }
    }
    Ok(0)
}

fn change(history: &History, better: Better, number: &dyn Fn(f64) -> String) -> Option<String> {
    let shift = history.shift().filter(|shift| shift.p < TOLD_BELOW)?;
    let effect = shift.after / shift.before - 1.0;
    let word = match (better, effect > 0.0) {
        (Better::Higher, true) | (Better::Lower, false) => "better",
        (Better::Higher, false) | (Better::Lower, true) => "WORSE",
        (Better::Neither, _) => "different",
    };
    let since = &history.samples[shift.at];
    Some(format!(
        "{} on {}: {word} since run {} ({}): {} to {} ({}), p {}",
        history.load,
        history.subject,
        since.run.get(..8).unwrap_or(&since.run),
        since.moment,
        number(shift.before),
        number(shift.after),
        percent(effect),
        chance(shift.p)
    ))
}

/// The course of values as blocks of eight heights; long ones show their end.
fn course(values: &[f64]) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const LONGEST: usize = 40;
    let shown = &values[values.len().saturating_sub(LONGEST)..];
    let lowest = shown.iter().copied().fold(f64::INFINITY, f64::min);
    let range = shown.iter().copied().fold(f64::NEG_INFINITY, f64::max) - lowest;
    let heights = shown.iter().map(|value| {
        let height = if range > 0.0 {
            (value - lowest) / range * 7.0
        } else {
            3.0
        };
        HEIGHTS[(height.round() as usize).min(7)]
    });
    heights.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_has_a_block_for_every_value() {
        assert_eq!(course(&[1.0, 2.0, 8.0]), "▁▂█");
        assert_eq!(course(&[5.0, 5.0]), "▄▄");
        assert_eq!(course(&[0.0; 100]).chars().count(), 40);
    }
}
