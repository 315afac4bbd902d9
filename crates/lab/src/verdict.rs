//! What the runs of two arms allow to be said, in one sentence.

use serde::Serialize;

use crate::metric::Better;
use crate::statistics::{
    Bootstrap, Interval, RunSample, Welch, detectable, mean, permutation_p, runs_needed,
    standard_deviation,
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

/// What was found. Differences are relative: 0.05 is five percent more than the first arm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// The verdict.
    pub verdict: Verdict,
    /// Runs of the first and the second arm.
    pub runs: (usize, usize),
    /// The mean of each.
    pub means: (f64, f64),
    /// The standard deviation of each.
    pub deviations: (f64, f64),
    /// The ratio of the second to the first, less one.
    pub effect: f64,
    /// The effects that the runs allow: the wider of Welch's interval and the bootstrap's.
    pub interval: Option<Interval>,
    /// Welch's test of the logarithms.
    pub welch: Option<Welch>,
    /// The permutation test of the logarithms.
    pub permutation: Option<f64>,
    /// The bootstrap's interval.
    pub bootstrap: Option<Interval>,
    /// The difference that so many runs would find four times in five.
    pub detectable: Option<f64>,
    /// Further runs per arm that would resolve the difference asked for.
    pub more_runs: Option<usize>,
    /// The level of confidence.
    pub level: f64,
    /// The difference asked for.
    pub resolve: f64,
}

impl Answer {
    /// Compares the runs of two arms. Nothing when an arm is empty or a figure is not positive:
    /// ratios need positive figures.
    pub fn of(
        first: &[RunSample<'_>],
        second: &[RunSample<'_>],
        better: Better,
        demands: Demands,
    ) -> Option<Self> {
        let values = |arm: &[RunSample<'_>]| arm.iter().map(|run| run.value).collect::<Vec<f64>>();
        let (one, two) = (values(first), values(second));
        let usable = |arm: &[f64]| !arm.is_empty() && arm.iter().all(|value| *value > 0.0);
        if !usable(&one) || !usable(&two) {
            return None;
        }
        let logs = |arm: &[f64]| arm.iter().map(|value| value.ln()).collect::<Vec<f64>>();
        let (log_one, log_two) = (logs(&one), logs(&two));
        let level = demands.level;
        let welch = Welch::of(&log_one, &log_two);
        let bootstrap = Bootstrap::default().log_ratio(first, second, level);
        let repeated = one.len() > 1 && two.len() > 1;
        let interval = match (welch.map(|welch| welch.interval(level)), bootstrap) {
            (Some(welch), Some(redrawn)) => Some(welch.around(redrawn)),
            (one, other) => one.or(other),
        };
        let relative = |interval: Interval| interval.map(f64::exp_m1);
        let spread = pooled(&log_one, &log_two).filter(|spread| *spread > 0.0);
        let fewest = one.len().min(two.len());
        let needed = spread.and_then(|spread| runs_needed(spread, demands.resolve.ln_1p(), level));
        let interval = interval.map(relative);
        Some(Self {
            verdict: judge(interval.filter(|_| repeated), repeated, better),
            runs: (one.len(), two.len()),
            means: (mean(&one), mean(&two)),
            deviations: (standard_deviation(&one), standard_deviation(&two)),
            effect: (mean(&log_two) - mean(&log_one)).exp_m1(),
            interval,
            welch,
            permutation: permutation_p(&log_one, &log_two, SEED).filter(|_| repeated),
            bootstrap: bootstrap.map(relative),
            detectable: spread.map(|spread| detectable(spread, fewest, level).exp_m1()),
            more_runs: needed.map(|needed| needed.saturating_sub(fewest)),
            level,
            resolve: demands.resolve,
        })
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
        let p = self.welch.map(|welch| format!(", p {}", chance(welch.p)));
        p.unwrap_or_default()
    }

    fn outlook(&self) -> String {
        let resolve = bare_percent(self.resolve);
        match self.more_runs {
            Some(0) => format!("; so many runs resolve {resolve} already"),
            Some(1) => format!("; about 1 more run an arm would resolve {resolve}"),
            Some(more) => format!("; about {more} more runs an arm would resolve {resolve}"),
            None => String::new(),
        }
    }

    fn too_few(&self) -> String {
        let (a, b) = self.runs;
        let count = |runs: usize| {
            if runs == 1 {
                "1 run".to_owned()
            } else {
                format!("{runs} runs")
            }
        };
        let within = match self
            .bootstrap
            .filter(|interval| interval.low < interval.high)
        {
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
            count(a),
            count(b)
        )
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
