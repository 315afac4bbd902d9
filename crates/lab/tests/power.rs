//! What verdicts are worth: simulated sessions of known servers, compared as the laboratory compares.
//! Seeds are fixed. Runs spread by one percent; drifts, effects and cold runs are scripted.

use std::collections::BTreeMap;

use lab::compare::{Comparison, Manner, compare};
use lab::figures::Figures;
use lab::finding::Kind;
use lab::metric::Metric;
use lab::run::{Evidence, LoadFacts, Origin, Outcome, Run, ServerUse, SubjectFacts};
use lab::statistics::Draw;
use lab::verdict::{Analysis, Verdict};

const METRIC: &str = "request_throughput";
/// The spread of single runs.
const SPREAD: f64 = 0.01;
/// Sessions for each number of rounds.
const SESSIONS: u32 = 1500;

/// The power at two to ten rounds, `nct.sf(c, df, d) + nct.cdf(-c, df, d)` of scipy.stats with
/// `c = t.ppf(0.975, df)`, `df` rounds less one (from four on less two) and `d` the effect in errors.
const POWER_AT_2_PERCENT: [f64; 9] = [
    0.124, 0.287, 0.352, 0.550, 0.729, 0.831, 0.907, 0.945, 0.971,
];
const POWER_AT_5_PERCENT: [f64; 9] = [0.297, 0.833, 0.907, 0.996, 1.0, 1.0, 1.0, 1.0, 1.0];

/// A machine and two servers.
#[derive(Clone, Copy, Default)]
struct Truth {
    /// By how much the second server is faster.
    effect: f64,
    /// By how much the machine gets faster from round to round, evenly over its cells.
    drift: f64,
    /// By how much the first run of the session is slower, and the other one of its round.
    cold: (f64, f64),
    /// Runs are read from texts.
    imported: bool,
}

fn run(arm: &str, origin: Origin, repeat: u32) -> Evidence {
    let run = Run {
        id: format!("{arm}{repeat}"),
        subject: SubjectFacts {
            name: arm.to_owned(),
            ..SubjectFacts::default()
        },
        load: LoadFacts {
            name: "load".to_owned(),
            command: None,
            settings: BTreeMap::new(),
        },
        repeat,
        origin,
        outcome: Outcome::Finished,
        figures: Figures::default(),
        machine: None,
        findings: Vec::new(),
    };
    Evidence {
        run,
        records: Vec::new(),
    }
}

fn measured(cell: usize) -> Origin {
    Origin::Measured {
        session: "s".to_owned(),
        cell,
        started: format!("2026-01-01T00:{cell:02}:00Z"),
        ready_after: 1.0,
        ready_by: String::new(),
        ended_by_itself: Some(true),
        server: ServerUse::Fresh,
    }
}

fn imported(line: usize) -> Origin {
    Origin::Imported {
        file: "x".to_owned(),
        line,
        section: Vec::new(),
        note: None,
        layout: "C".to_owned(),
    }
}

/// A session in turns, A B B A and so on.
struct Session {
    truth: Truth,
    arms: [Vec<Evidence>; 2],
}

impl Session {
    fn of(truth: Truth, rounds: u32) -> Self {
        let mut arms = [Vec::new(), Vec::new()];
        for round in 0..rounds {
            for (arm, name) in ["a", "b"].into_iter().enumerate() {
                let cell = Self::cell(round, arm);
                let origin = if truth.imported {
                    imported(cell)
                } else {
                    measured(cell)
                };
                arms[arm].push(run(name, origin, round + 1));
            }
        }
        Self { truth, arms }
    }

    fn cell(round: u32, arm: usize) -> usize {
        let reversed = round % 2 == 1;
        round as usize * 2 + usize::from((arm == 1) != reversed)
    }

    /// Measures everything anew.
    fn measure(&mut self, draw: &mut Draw) {
        let truth = self.truth;
        for (arm, runs) in self.arms.iter_mut().enumerate() {
            for (round, one) in runs.iter_mut().enumerate() {
                let cell = Self::cell(round as u32, arm);
                let effect = if arm == 1 { truth.effect.ln_1p() } else { 0.0 };
                let drift = truth.drift.ln_1p() * cell as f64 / 2.0;
                let cold = match cell {
                    0 => (-truth.cold.0).ln_1p(),
                    1 => (-truth.cold.1).ln_1p(),
                    _ => 0.0,
                };
                let log = effect + drift + cold + SPREAD * draw.normal();
                one.run.figures.set(METRIC, 100.0 * log.exp());
            }
        }
    }

    fn compared(&self) -> Comparison {
        let metrics: Vec<_> = Metric::named(METRIC).into_iter().collect();
        compare(&self.arms[0], &self.arms[1], &metrics, &Manner::default()).remove(0)
    }
}

/// Shares of sessions.
#[derive(Debug)]
struct Shares {
    /// In which a difference was shown.
    shown: f64,
    /// Whose printed interval has the truth; nothing when no interval was printed.
    covered: Option<f64>,
}

fn simulated(truth: Truth, rounds: u32, sessions: u32) -> Shares {
    let mut draw = Draw::seeded(u64::from(rounds) * 1000 + 7);
    let mut session = Session::of(truth, rounds);
    let (mut shown, mut covered, mut intervals) = (0u32, 0u32, 0u32);
    for _ in 0..sessions {
        session.measure(&mut draw);
        let found = session.compared();
        let answer = &found.answers[0].answer;
        shown += u32::from(matches!(answer.verdict, Verdict::Better | Verdict::Worse));
        if let Some(interval) = answer.interval {
            intervals += 1;
            covered += u32::from(interval.contains(truth.effect));
        }
        let analysis = if truth.imported || answer.runs.0 < 2 {
            Analysis::Unpaired
        } else {
            Analysis::Paired
        };
        assert_eq!(answer.analysis, analysis);
    }
    Shares {
        shown: f64::from(shown) / f64::from(sessions),
        covered: (intervals > 0).then(|| f64::from(covered) / f64::from(intervals)),
    }
}

/// Whether a share of the sessions is what was predicted, but for one chance in thousands.
fn is_near(found: f64, predicted: f64) -> bool {
    let error = (predicted * (1.0 - predicted) / f64::from(SESSIONS)).sqrt();
    (found - predicted).abs() <= 3.5 * error + 0.001
}

fn covers(found: &Shares) -> bool {
    found
        .covered
        .is_some_and(|share| (0.93..=0.97).contains(&share))
}

#[test]
fn the_same_server_twice_is_called_different_as_often_as_is_stated() {
    for rounds in 2..=10 {
        let found = simulated(Truth::default(), rounds, SESSIONS);
        assert!(is_near(found.shown, 0.05), "{rounds} rounds: {found:?}");
        assert!(covers(&found), "{rounds} rounds: {found:?}");
    }
}

#[test]
fn differences_are_shown_as_often_as_is_predicted() {
    for (effect, powers) in [(0.02, POWER_AT_2_PERCENT), (0.05, POWER_AT_5_PERCENT)] {
        for (rounds, power) in (2..=10).zip(powers) {
            let truth = Truth {
                effect,
                ..Truth::default()
            };
            let found = simulated(truth, rounds, SESSIONS);
            assert!(
                is_near(found.shown, power),
                "{effect}, {rounds} rounds: {found:?}"
            );
            assert!(covers(&found), "{effect}, {rounds} rounds: {found:?}");
        }
    }
}

#[test]
fn a_drift_of_the_machine_costs_neither_level_nor_power() {
    for (rounds, power) in (2..=10).zip(POWER_AT_2_PERCENT) {
        let drift = 0.02;
        let same = simulated(
            Truth {
                drift,
                ..Truth::default()
            },
            rounds,
            SESSIONS,
        );
        let truth = Truth {
            drift,
            effect: 0.02,
            ..Truth::default()
        };
        let faster = simulated(truth, rounds, SESSIONS);
        if rounds < 4 {
            // the order within rounds is noise there, so intervals get wider
            assert!(same.shown < 0.05, "{rounds} rounds: {same:?}");
            assert!(
                same.covered
                    .is_some_and(|share| (0.95..0.98).contains(&share)),
                "{same:?}"
            );
            continue;
        }
        assert!(
            is_near(same.shown, 0.05) && covers(&same),
            "{rounds} rounds: {same:?}"
        );
        assert!(
            is_near(faster.shown, power) && covers(&faster),
            "{rounds} rounds: {faster:?}"
        );
    }
}

#[test]
fn cold_first_runs_bias_nothing() {
    // a cold machine slows the first run of all, or the first round
    for cold in [(0.3, 0.0), (0.3, 0.25)] {
        for (rounds, power) in (3..=10).zip(POWER_AT_2_PERCENT) {
            let same = simulated(
                Truth {
                    cold,
                    ..Truth::default()
                },
                rounds,
                SESSIONS,
            );
            let truth = Truth {
                cold,
                effect: 0.02,
                ..Truth::default()
            };
            let faster = simulated(truth, rounds, SESSIONS);
            assert!(
                is_near(same.shown, 0.05) && covers(&same),
                "{rounds} rounds: {same:?}"
            );
            // one round is left out
            assert!(is_near(faster.shown, power), "{rounds} rounds: {faster:?}");
        }
    }
    let mut session = Session::of(
        Truth {
            cold: (0.3, 0.0),
            ..Truth::default()
        },
        3,
    );
    session.measure(&mut Draw::seeded(1));
    let found = session.compared();
    assert_eq!(
        found.answers[0].left_out,
        ["a1", "b1"],
        "both arms lose their first run"
    );
    let cold = found
        .findings
        .iter()
        .filter(|finding| finding.kind == Kind::ColdRun);
    assert_eq!(cold.count(), 1, "the cold one alone is called cold");
}

#[test]
fn imported_runs_are_held_against_each_other_unpaired() {
    for rounds in 2..=10 {
        let truth = Truth {
            imported: true,
            ..Truth::default()
        };
        let found = simulated(truth, rounds, SESSIONS);
        assert!(found.shown <= 0.065, "{rounds} runs: {found:?}");
        // Welch's test is careful with two and three runs
        let least = found
            .covered
            .is_some_and(|share| (0.935..=0.985).contains(&share));
        assert!(
            least && (rounds < 4 || covers(&found)),
            "{rounds} runs: {found:?}"
        );
    }
}

#[test]
fn runs_that_were_not_made_round_after_round_are_not_paired() {
    let pair = |change: &dyn Fn(&mut Run)| {
        let mut session = Session::of(Truth::default(), 5);
        session.measure(&mut Draw::seeded(3));
        session
            .arms
            .iter_mut()
            .flatten()
            .for_each(|one| change(&mut one.run));
        let found = session.compared().answers.remove(0);
        (
            found.answer.analysis,
            found.unpaired.map(lab::compare::Unpaired::reason),
        )
    };
    assert_eq!(pair(&|_| {}), (Analysis::Paired, None));
    let listed = |run: &mut Run| {
        let cell = run.repeat as usize + if run.subject.name == "a" { 0 } else { 5 };
        run.origin = measured(cell);
    };
    let why = Some("the runs were not made round after round");
    assert_eq!(pair(&listed), (Analysis::Unpaired, why));
    let apart = |run: &mut Run| {
        if let Origin::Measured { session, .. } = &mut run.origin {
            *session += &run.subject.name;
        }
    };
    assert_eq!(
        pair(&apart),
        (Analysis::Unpaired, Some("the arms share no session"))
    );
}

#[test]
fn a_run_without_a_partner_in_its_round_is_told_and_does_not_count() {
    let mut session = Session::of(Truth::default(), 4);
    session.measure(&mut Draw::seeded(3));
    session.arms[1].remove(2);
    let found = session.compared();
    assert_eq!(found.answers[0].answer.runs, (3, 3));
    assert_eq!(found.answers[0].answer.analysis, Analysis::Paired);
    let told: Vec<String> = found.findings.iter().map(ToString::to_string).collect();
    let alone =
        "failures: run a3 (round 3) of a does not count: b has no finished run in that round";
    assert!(told.iter().any(|one| one == alone), "{told:?}");
}
