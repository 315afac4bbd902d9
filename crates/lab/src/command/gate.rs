//! `lab gate`: a regression that is shown ends with 1.

use flags::{Command, FlagSpec, Group, Parsed, Positional, Preset, Takes};

use super::compare::{KEEP_COLD, LEVEL, LOAD, METRIC};
use super::{Console, Failure, STORE, arms, open_store, share};
use crate::compare::{Manner, compare};
use crate::metric::Better;
use crate::verdict::{Answer, Demands, Verdict, bare_percent};

pub(super) const COMMAND: Command<'static> = Command {
    program: "peregrine lab gate",
    about: "Compares a candidate with a baseline for a machine to act on. Ends with 0 when it passes, 1 \
            when a regression beyond the limit is shown, and with --decide with 3 when the runs are too \
            few or too noisy to exclude one.",
    positionals: &[Positional {
        name: "CANDIDATE",
        takes: Takes::One,
        help: "The runs of one subject (see `lab list`).",
    }],
    groups: &[Group {
        title: "options",
        flags: &[
            STORE,
            FlagSpec::text("baseline", "The runs to hold it against.").required(),
            FlagSpec::text("max-regression", "The regression that is tolerated.")
                .default(Preset::Text("3%")),
            FlagSpec::switch("decide", "End with 3 when a regression cannot be excluded."),
            METRIC,
            LOAD,
            LEVEL,
            KEEP_COLD,
        ],
    }],
};

/// What a gate does with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Decision {
    Pass,
    Undecided,
    Regression,
}

pub(super) fn run(parsed: &Parsed, console: &mut Console<'_>) -> Result<u8, Failure> {
    let store = open_store(parsed)?;
    let load = parsed.text("load");
    let baseline = arms::arm(&store, parsed.text("baseline").unwrap_or_default(), load)?;
    let candidate = arms::arm(&store, &parsed.words()[0], load)?;
    arms::apart(&baseline, &candidate)?;
    let limit = share(parsed, "max-regression")?;
    let manner = Manner {
        demands: Demands {
            level: share(parsed, "level")?,
            resolve: limit.max(0.001),
        },
        keep_cold: parsed.switch("keep-cold"),
        variable: None,
    };
    let found = compare(&baseline, &candidate, &arms::metrics(parsed)?, &manner);
    let mut worst = None;
    for comparison in &found {
        for answer in &comparison.answers {
            let metric = answer.metric;
            let decision = decide(&answer.answer, metric.better, limit);
            let word = match decision {
                Decision::Pass => "pass",
                Decision::Undecided => "undecided",
                Decision::Regression => "REGRESSION",
            };
            console.say(&format!(
                "{word}: {} of {}: {}",
                metric.name,
                comparison.load,
                answer.answer.sentence()
            ));
            worst = worst.max(Some(decision));
        }
        for finding in &comparison.findings {
            console.say(&format!("  ! {finding}"));
        }
    }
    let limit = bare_percent(limit);
    Ok(match worst {
        None => {
            console.warn("the arms share no load and figure, so nothing was checked");
            3
        }
        Some(Decision::Pass) => {
            console.say(&format!("no regression above {limit}"));
            0
        }
        Some(Decision::Undecided) => {
            console.say(&format!(
                "a regression above {limit} is not shown and not excluded"
            ));
            if parsed.switch("decide") { 3 } else { 0 }
        }
        Some(Decision::Regression) => {
            console.say(&format!("a regression above {limit} is shown"));
            1
        }
    })
}

/// A regression is shown when the arms differ for the worse and by more than the limit; it is
/// excluded when the whole interval stays within the limit.
fn decide(answer: &Answer, better: Better, limit: f64) -> Decision {
    let loss = |effect: f64| match better {
        Better::Lower => effect,
        Better::Higher | Better::Neither => -effect,
    };
    if answer.verdict == Verdict::Worse && loss(answer.effect) > limit {
        return Decision::Regression;
    }
    let excluded = answer.interval.is_some_and(|interval| {
        answer.verdict != Verdict::CannotTell
            && loss(interval.low).max(loss(interval.high)) <= limit
    });
    if excluded {
        Decision::Pass
    } else {
        Decision::Undecided
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::RunSample;

    fn decision(baseline: &[f64], candidate: &[f64], better: Better) -> Decision {
        let samples = |values: &[f64]| -> Vec<RunSample<'static>> {
            let runs = values.iter().map(|value| RunSample {
                value: *value,
                requests: None,
            });
            runs.collect()
        };
        let demands = Demands::default();
        let answer = Answer::of(&samples(baseline), &samples(candidate), better, demands);
        decide(&answer.unwrap(), better, 0.03)
    }

    #[test]
    fn a_gate_acts_on_what_is_shown() {
        let steady = [100.0, 100.4, 99.6, 100.2, 99.8];
        let scaled = |by: f64| steady.map(|value| value * by);
        let noisy = [80.0, 120.0, 95.0, 110.0, 90.0];
        let cases = [
            (scaled(1.0), Decision::Pass),
            (scaled(1.1), Decision::Pass),
            (scaled(0.99), Decision::Pass),
            (scaled(0.971), Decision::Undecided),
            (scaled(0.9), Decision::Regression),
            (noisy, Decision::Undecided),
        ];
        for (candidate, expected) in cases {
            let found = decision(&steady, &candidate, Better::Higher);
            assert_eq!(found, expected, "{candidate:?}");
        }
        assert_eq!(
            decision(&steady, &scaled(1.1), Better::Lower),
            Decision::Regression
        );
        assert_eq!(
            decision(&steady, &scaled(0.9), Better::Lower),
            Decision::Pass
        );
        assert_eq!(
            decision(&steady[..1], &scaled(0.5)[..1], Better::Higher),
            Decision::Undecided
        );
    }
}
