//! What the runs of two arms allow to be said, in one sentence.

use serde::Serialize;

use crate::columns::counted;
use crate::metric::Better;
use crate::statistics::{
    Bootstrap, Design, Interval, Round, RunSample, TTest, detectable, least_permutation_p,
    least_sign_flip_p, mean, permutation_p, runs_needed, sign_flip_p, standard_deviation,
};

/// The seed of random divisions, so that an answer never changes.
const SEED: u64 = 4;

/// How sure an answer has to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demands {
    /// The level of confidence.
    pub level: f64,
    /// The relative difference that should be resolved.
    pub resolve: f64,
}

impl Default for Demands {
    fn default() -> Self {
        Self {
            level: 0.95,
            resolve: 0.02,
        }
    }
}

/// The verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The second arm is better.
    Better,
    /// The second arm is worse.
    Worse,
    /// They differ in something that is neither good nor bad.
    Different,
    /// Nothing shown.
    NoDifference,
    /// Too few runs to say anything.
    CannotTell,
}

/// How the runs were held against each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Analysis {
    /// Within the rounds of sessions, so that a drift between rounds is no noise.
    Paired,
    /// All runs of one arm against all of the other.
    Unpaired,
}

/// A figure of both arms in one round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundSample {
    /// The first arm's.
    pub first: f64,
    /// The second arm's.
    pub second: f64,
    /// Whether the second arm came first.
    pub reversed: bool,
}

/// What was found. Differences are relative: 0.05 is five percent more than the first arm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// The verdict.
    pub verdict: Verdict,
    /// How the runs were held against each other.
    pub analysis: Analysis,
    /// Runs of the first and the second arm.
    pub runs: (usize, usize),
    /// The mean of each.
    pub means: (f64, f64),
    /// The standard deviation of each.
    pub deviations: (f64, f64),
    /// The ratio of the second to the first, less one.
    pub effect: f64,
    /// The effects that the runs allow, by Student's distribution; nothing without repeats.
    pub interval: Option<Interval>,
    /// The test of the logarithms: Welch's, or that of rounds.
    pub test: Option<TTest>,
    /// The permutation test of the logarithms, or of their signs within rounds.
    pub permutation: Option<f64>,
    /// The smallest chance that this test can give with this number of runs.
    pub least_permutation: f64,
    /// The effects that requests drawn again within single runs allow; nothing with repeats.
    pub within: Option<Interval>,
    /// The difference that this number of runs would find four times in five.
    pub detectable: Option<f64>,
    /// Further runs per arm, or rounds, that would resolve the difference asked for.
    pub more_runs: Option<usize>,
    /// The level of confidence.
    pub level: f64,
    /// The difference asked for.
    pub resolve: f64,
}

fn relative(interval: Interval) -> Interval {
    interval.map(f64::exp_m1)
}

/// Whether ratios can be made of figures: there are some and all are positive.
fn usable(values: &[f64]) -> bool {
    !values.is_empty() && values.iter().all(|value| *value > 0.0 && value.is_finite())
}

fn logarithms(values: &[f64]) -> Vec<f64> {
    values.iter().map(|value| value.ln()).collect()
}

impl Answer {
    /// Compares all runs of two arms. Nothing when an arm is empty or a figure is not positive: ratios
    /// need positive figures.
    pub fn unpaired(
        first: &[RunSample<'_>],
        second: &[RunSample<'_>],
        better: Better,
        demands: Demands,
    ) -> Option<Self> {
        let values = |arm: &[RunSample<'_>]| arm.iter().map(|run| run.value).collect::<Vec<f64>>();
        let arms = (values(first), values(second));
        if !usable(&arms.0) || !usable(&arms.1) {
            return None;
        }
        let (one, two) = (logarithms(&arms.0), logarithms(&arms.1));
        let repeated = one.len() > 1 && two.len() > 1;
        let redrawn = || Bootstrap::default().log_ratio(first, second, demands.level);
        let within = if repeated { None } else { redrawn() };
        let measures = Measures {
            design: Design::Apart,
            spread: pooled(&one, &two),
            test: TTest::welch(&one, &two),
            permutation: permutation_p(&one, &two, SEED).filter(|_| repeated),
            least_permutation: least_permutation_p((one.len(), two.len())),
            within: within.filter(|interval| interval.low < interval.high),
        };
        Some(measures.answer(&arms, better, demands))
    }

    /// Compares two arms within rounds. Nothing when there are fewer than two or a figure is not
    /// positive.
    pub fn paired(rounds: &[RoundSample], better: Better, demands: Demands) -> Option<Self> {
        let arms: (Vec<f64>, Vec<f64>) = rounds
            .iter()
            .map(|round| (round.first, round.second))
            .unzip();
        if rounds.len() < 2 || !usable(&arms.0) || !usable(&arms.1) {
            return None;
        }
        let differences = rounds.iter().map(|round| Round {
            difference: (round.second / round.first).ln(),
            reversed: round.reversed,
        });
        let differences: Vec<Round> = differences.collect();
        let plain: Vec<f64> = differences.iter().map(|round| round.difference).collect();
        let test = TTest::rounds(&differences);
        let measures = Measures {
            design: Design::Rounds,
            spread: test.map(|test| test.error * (rounds.len() as f64).sqrt()),
            test,
            permutation: sign_flip_p(&plain, SEED),
            least_permutation: least_sign_flip_p(rounds.len()),
            within: None,
        };
        Some(measures.answer(&arms, better, demands))
    }

    /// The answer in one sentence; the arms are called A and B.
    pub fn sentence(&self) -> String {
        match self.verdict {
            Verdict::Better => format!("better {}", self.distance()),
            Verdict::Worse => format!("worse {}", self.distance()),
            Verdict::Different => format!("different {}", self.distance()),
            Verdict::NoDifference => {
                format!("no difference shown: {}{}", self.range(), self.outlook())
            }
            Verdict::CannotTell => self.too_few(),
        }
    }

    /// `by 4.6–7.2 % (B is higher; 95 %, p < 0.001)`.
    fn distance(&self) -> String {
        let Some(interval) = self.interval else {
            return self.range();
        };
        let side = if interval.low > 0.0 {
            "higher"
        } else {
            "lower"
        };
        let (near, far) = if interval.low > 0.0 {
            (interval.low, interval.high)
        } else {
            (-interval.high, -interval.low)
        };
        let (near, far) = (near * 100.0, far * 100.0);
        let (level, p) = (self.stated_level(), self.p());
        format!("by {near:.1}–{far:.1} % (B is {side}; {level}{p})")
    }

    fn range(&self) -> String {
        match self.interval {
            Some(interval) => {
                let (low, high) = (percent(interval.low), percent(interval.high));
                let (level, p) = (self.stated_level(), self.p());
                format!("B is {low} … {high} against A ({level}){p}")
            }
            None => format!("B is {} against A", percent(self.effect)),
        }
    }

    fn stated_level(&self) -> String {
        format!("{} %", (self.level * 100.0).round())
    }

    fn p(&self) -> String {
        let Some(test) = self.test else {
            return String::new();
        };
        let analysis = match self.analysis {
            Analysis::Paired => "paired by round",
            Analysis::Unpaired => "unpaired",
        };
        format!(", p {}, {analysis}", chance(test.p))
    }

    fn outlook(&self) -> String {
        let resolve = bare_percent(self.resolve);
        match (self.more_runs, self.more()) {
            (Some(0), _) => format!("; this number of runs resolves {resolve}"),
            (_, Some(more)) => format!("; about {more} would resolve {resolve}"),
            (_, None) => String::new(),
        }
    }

    /// `18 more runs an arm`, `3 more rounds`: what would resolve the difference asked for, if anything
    /// is missing.
    pub fn more(&self) -> Option<String> {
        let more = self.more_runs.filter(|more| *more > 0)?;
        Some(match self.analysis {
            Analysis::Paired => counted(more, "more round"),
            Analysis::Unpaired => format!("{} an arm", counted(more, "more run")),
        })
    }

    fn too_few(&self) -> String {
        let (a, b) = self.runs;
        let within = match self.within {
            Some(interval) => format!(
                " (requests within them spread by {} … {}, runs may by more)",
                percent(interval.low),
                percent(interval.high)
            ),
            None => String::new(),
        };
        format!(
            "cannot be told: B is {} against A from {} of A and {} of B{within}; without repeats \
             there is nothing to hold it against",
            percent(self.effect),
            counted(a, "run"),
            counted(b, "run")
        )
    }

    /// The test behind the answer and what it can find, for readers of statistics.
    pub fn details(&self) -> String {
        let mut details = Vec::new();
        if let Some(test) = self.test {
            let name = match self.analysis {
                Analysis::Paired => format!("paired in {} rounds,", self.runs.0),
                Analysis::Unpaired => "unpaired, Welch".to_owned(),
            };
            let (t, degrees) = (test.t, test.degrees);
            details.push(format!("{name} t = {t:.2}, {degrees:.1} degrees"));
        }
        if let Some(p) = self.permutation {
            let least = if p <= self.least_permutation {
                ", the least that this number of runs can give"
            } else {
                ""
            };
            details.push(format!("permutation p {}{least}", chance(p)));
        }
        if let Some(detectable) = self.detectable.filter(|size| size.is_finite()) {
            let found = bare_percent(detectable);
            details.push(format!(
                "this number of runs finds a difference of {found} four times in five"
            ));
        }
        details.join("; ")
    }
}

/// What the arms' figures gave, before it is judged.
struct Measures {
    design: Design,
    /// The spread of single runs, or of the differences within rounds.
    spread: Option<f64>,
    test: Option<TTest>,
    permutation: Option<f64>,
    least_permutation: f64,
    within: Option<Interval>,
}

impl Measures {
    fn answer(self, arms: &(Vec<f64>, Vec<f64>), better: Better, demands: Demands) -> Answer {
        let (one, two) = arms;
        let (level, resolve) = (demands.level, demands.resolve);
        let repeated = one.len() > 1 && two.len() > 1;
        let fewest = one.len().min(two.len());
        let spread = self.spread.filter(|spread| *spread > 0.0);
        let needed =
            spread.and_then(|spread| runs_needed(self.design, spread, resolve.ln_1p(), level));
        let interval = self.test.map(|test| relative(test.interval(level)));
        let plain = || mean(&logarithms(two)) - mean(&logarithms(one));
        let effect = self
            .test
            .map_or_else(plain, |test| test.difference)
            .exp_m1();
        Answer {
            verdict: judge(interval, repeated, better),
            analysis: match self.design {
                Design::Apart => Analysis::Unpaired,
                Design::Rounds => Analysis::Paired,
            },
            runs: (one.len(), two.len()),
            means: (mean(one), mean(two)),
            deviations: (standard_deviation(one), standard_deviation(two)),
            effect,
            interval,
            test: self.test,
            permutation: self.permutation,
            least_permutation: self.least_permutation,
            within: self.within.map(relative),
            detectable: spread
                .map(|spread| detectable(self.design, spread, fewest, level).exp_m1()),
            more_runs: needed.map(|needed| needed.saturating_sub(fewest)),
            level,
            resolve,
        }
    }
}

fn judge(interval: Option<Interval>, repeated: bool, better: Better) -> Verdict {
    let Some(interval) = interval else {
        return if repeated {
            Verdict::NoDifference
        } else {
            Verdict::CannotTell
        };
    };
    if interval.contains(0.0) {
        return Verdict::NoDifference;
    }
    match (better, interval.low > 0.0) {
        (Better::Higher, true) | (Better::Lower, false) => Verdict::Better,
        (Better::Higher, false) | (Better::Lower, true) => Verdict::Worse,
        (Better::Neither, _) => Verdict::Different,
    }
}

/// The spread of single runs, from both arms together.
fn pooled(first: &[f64], second: &[f64]) -> Option<f64> {
    let freedom = (first.len() + second.len())
        .checked_sub(2)
        .filter(|freedom| *freedom > 0)?;
    let squares = |values: &[f64]| {
        let deviation = standard_deviation(values);
        deviation * deviation * values.len().saturating_sub(1) as f64
    };
    Some(((squares(first) + squares(second)) / freedom as f64).sqrt())
}

/// `+4.6 %`, `−1.2 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let rounded = (percent * 10.0).round() / 10.0;
    let sign = if rounded < 0.0 { '−' } else { '+' };
    format!("{sign}{:.1} %", rounded.abs())
}

/// `2 %`, `0.5 %`.
pub fn bare_percent(share: f64) -> String {
    format!("{} %", (share * 1000.0).round() / 10.0)
}

/// `= 0.30`, `< 0.001`.
pub fn chance(p: f64) -> String {
    if p < 0.001 {
        "< 0.001".to_owned()
    } else if p < 0.1 {
        format!("= {p:.3}")
    } else {
        format!("= {p:.2}")
    }
}

#[cfg(test)]
mod tests;
