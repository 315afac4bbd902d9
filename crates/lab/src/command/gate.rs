//! `lab gate`: passes only what is known to be no regression.

use flags::{Command, FlagSpec, Group, Parsed, Positional, Preset, Takes};

use serde::Serialize;
use serde_json::json;

use super::compare::{KEEP_COLD, LEVEL, LOAD, METRIC};
use super::{Console, Failure, JSON, STORE, arms, open_store, share};
use crate::compare::{Manner, MetricAnswer, compare};
use crate::finding::Finding;
use crate::metric::Better;
use crate::verdict::{Answer, Demands, Verdict, bare_percent};

/// Repeats below this are hardly worth a comparison.
const FEWEST: usize = 3;

pub(super) const COMMAND: Command<'static> = Command {
    program: "peregrine lab gate",
    about: "Compares a candidate with a baseline for a machine to act on. Ends with 0 when a regression \
            beyond the limit is excluded, with 1 when one is shown, and with 3 when neither can be said: \
            too few runs, too much noise, or nothing to compare.",
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
            METRIC,
            LOAD,
            LEVEL,
            KEEP_COLD,
            JSON,
        ],
    }],
};

/// What a gate does with an answer, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Decision {
    Pass,
    Undecided,
    Regression,
}

impl Decision {
    fn exit_code(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Regression => 1,
            Self::Undecided => 3,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Undecided => "undecided",
            Self::Regression => "REGRESSION",
        }
    }
}

/// One metric of one load, decided.
struct Check<'a> {
    load: &'a str,
    found: &'a MetricAnswer,
    decision: Decision,
}

pub(super) fn run(parsed: &Parsed, console: &mut Console<'_>) -> Result<u8, Failure> {
    let store = open_store(parsed, console)?;
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
    let mut checks = Vec::new();
    for comparison in &found {
        for found in &comparison.answers {
            checks.push(Check {
                load: &comparison.load,
                found,
                decision: decide(&found.answer, found.metric.better, limit),
            });
        }
    }
    let worst = checks.iter().map(|check| check.decision).max();
    let decision = worst.unwrap_or(Decision::Undecided);
    let conclusion = conclusion(decision, &checks, limit);
    if parsed.switch("json") {
        let answers = checks.iter().map(|check| {
            let mut answer = super::compare::answer_json(check.found);
            answer["load"] = check.load.into();
            answer["decision"] = json!(check.decision);
            answer
        });
        let findings: Vec<&Finding> = found.iter().flat_map(|one| &one.findings).collect();
        console.show_json(&json!({
            "decision": decision,
            "max_regression": limit,
            "conclusion": conclusion,
            "baseline": baseline[0].run.subject.name,
            "candidate": candidate[0].run.subject.name,
            "checks": answers.collect::<Vec<_>>(),
            "findings": findings,
        }));
        return Ok(decision.exit_code());
    }
    for comparison in &found {
        for check in checks.iter().filter(|check| check.load == comparison.load) {
            let (word, metric) = (check.decision.word(), check.found.metric.name);
            let sentence = check.found.answer.sentence();
            console.say(&format!("{word}: {metric} of {}: {sentence}", check.load));
        }
        for finding in &comparison.findings {
            console.say(&format!("  ! {finding}"));
        }
    }
    console.say(&conclusion);
    Ok(decision.exit_code())
}

/// The outcome in a sentence, with what to do where nothing was decided.
fn conclusion(decision: Decision, checks: &[Check<'_>], limit: f64) -> String {
    let limit = bare_percent(limit);
    match decision {
        Decision::Pass => format!("no regression above {limit}"),
        Decision::Regression => format!("a regression above {limit} is shown"),
        Decision::Undecided if checks.is_empty() => {
            "undecided: the arms share no load and figure, so nothing was checked; run the same loads on \
             both, or name a --metric that both have"
                .to_owned()
        }
        Decision::Undecided => {
            let undecided = checks.iter().filter(|check| check.decision == decision);
            let answers: Vec<&Answer> = undecided.map(|check| &check.found.answer).collect();
            let advice = advice(&answers);
            format!("undecided: a regression above {limit} is neither shown nor excluded; {advice}")
        }
    }
}

/// What would decide.
fn advice(answers: &[&Answer]) -> String {
    if answers
        .iter()
        .any(|answer| answer.verdict == Verdict::CannotTell)
    {
        return format!(
            "an arm has a single run: repeat each load at least {FEWEST} times (`repeats` of the plan)"
        );
    }
    let most = answers.iter().max_by_key(|answer| answer.more_runs);
    match most.and_then(|answer| answer.more()) {
        Some(more) => format!("make about {more} (`repeats` of the plan)"),
        None => {
            "the effect is near the limit: more repeats (`repeats` of the plan) narrow its interval"
                .to_owned()
        }
    }
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
        let answer = Answer::unpaired(&samples(baseline), &samples(candidate), better, demands);
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
