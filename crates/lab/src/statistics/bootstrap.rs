//! The bootstrap: runs drawn again within arms, requests drawn again within runs.

use super::draw::Draw;
use super::sample::{mean, quantile};
use super::t_test::Interval;

/// How a run's figure is made of its requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Estimator {
    /// Their mean.
    Mean,
    /// The value below which this share of them lies.
    Quantile(f64),
}

impl Estimator {
    fn of(self, values: &mut [f64]) -> f64 {
        match self {
            Self::Mean => mean(values),
            Self::Quantile(share) => quantile(values, share),
        }
    }
}

/// One run as the bootstrap sees it.
#[derive(Debug, Clone, Copy)]
pub struct RunSample<'a> {
    /// Its figure.
    pub value: f64,
    /// Its requests and how the figure is made of them, when they are known.
    pub requests: Option<(Estimator, &'a [f64])>,
}

/// How often, and from which seed.
#[derive(Debug, Clone, Copy)]
pub struct Bootstrap {
    /// Draws.
    pub draws: usize,
    /// The seed.
    pub seed: u64,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self {
            draws: 2000,
            seed: 20,
        }
    }
}

impl Bootstrap {
    /// The differences `second - first` of mean logarithms that redrawing gives, at this level.
    /// Nothing when an arm is empty or a figure is not positive.
    pub fn log_ratio(
        &self,
        first: &[RunSample<'_>],
        second: &[RunSample<'_>],
        level: f64,
    ) -> Option<Interval> {
        let positive = |arm: &[RunSample<'_>]| {
            !arm.is_empty()
                && arm
                    .iter()
                    .all(|run| run.value > 0.0 && run.value.is_finite())
        };
        if !positive(first) || !positive(second) {
            return None;
        }
        let mut draw = Draw::seeded(self.seed);
        let mut scratch = Vec::new();
        let (first, second) = (Logarithms::of(first), Logarithms::of(second));
        let mut differences: Vec<f64> = (0..self.draws.max(1))
            .map(|_| {
                second.redrawn(&mut draw, &mut scratch) - first.redrawn(&mut draw, &mut scratch)
            })
            .filter(|difference| difference.is_finite())
            .collect();
        let tail = (1.0 - level) / 2.0;
        let low = quantile(&mut differences, tail);
        let high = quantile(&mut differences, 1.0 - tail);
        (low.is_finite() && high.is_finite()).then_some(Interval { low, high })
    }
}

/// An arm, its logarithms taken.
struct Logarithms<'a> {
    runs: &'a [RunSample<'a>],
    logs: Vec<f64>,
    centre: f64,
}

impl<'a> Logarithms<'a> {
    fn of(runs: &'a [RunSample<'a>]) -> Self {
        let logs: Vec<f64> = runs.iter().map(|run| run.value.ln()).collect();
        let centre = mean(&logs);
        Self { runs, logs, centre }
    }

    /// The mean of the arm drawn again. Few runs drawn with replacement vary too little, by
    /// `(n - 1) / n`; that is put right.
    fn redrawn(&self, draw: &mut Draw, scratch: &mut Vec<f64>) -> f64 {
        let count = self.runs.len();
        let (mut sum, mut within) = (0.0, 0.0);
        for _ in 0..count {
            let chosen = draw.below(count);
            sum += self.logs[chosen];
            let requests = self.runs[chosen].requests;
            if let Some((estimator, requests)) = requests.filter(|(_, list)| !list.is_empty()) {
                scratch.clear();
                scratch.extend((0..requests.len()).map(|_| requests[draw.below(requests.len())]));
                within += estimator.of(scratch).ln() - self.logs[chosen];
            }
        }
        let n = count as f64;
        let widened = match count {
            1 => 0.0,
            _ => (sum / n - self.centre) * (n / (n - 1.0)).sqrt(),
        };
        self.centre + widened + within / n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(values: &[f64]) -> Vec<RunSample<'_>> {
        let samples = values.iter().map(|value| RunSample {
            value: *value,
            requests: None,
        });
        samples.collect()
    }

    #[test]
    fn the_interval_is_that_of_the_means_spread() {
        let mut draw = Draw::seeded(3);
        let mut arm = |centre: f64| -> Vec<f64> {
            (0..30)
                .map(|_| centre * (0.02 * draw.normal()).exp())
                .collect()
        };
        let (first, second) = (arm(100.0), arm(103.0));
        let bootstrap = Bootstrap::default();
        let found = bootstrap
            .log_ratio(&runs(&first), &runs(&second), 0.95)
            .unwrap();
        let logs = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<_>>();
        let welch = crate::statistics::TTest::welch(&logs(&first), &logs(&second)).unwrap();
        let expected = welch.interval(0.95);
        assert!(
            (found.low - expected.low).abs() < 0.001,
            "{found:?} {expected:?}"
        );
        assert!(
            (found.high - expected.high).abs() < 0.001,
            "{found:?} {expected:?}"
        );
    }

    #[test]
    fn one_run_has_the_spread_of_its_requests() {
        let requests: Vec<f64> = (0..100).map(|at| 10.0 + f64::from(at % 7)).collect();
        let run = |estimator| {
            let value = match estimator {
                Estimator::Mean => mean(&requests),
                Estimator::Quantile(share) => quantile(&mut requests.clone(), share),
            };
            [RunSample {
                value,
                requests: Some((estimator, &requests)),
            }]
        };
        let bootstrap = Bootstrap::default();
        for estimator in [Estimator::Mean, Estimator::Quantile(0.5)] {
            let run = run(estimator);
            let found = bootstrap.log_ratio(&run, &run, 0.95).unwrap();
            assert!(found.low < -0.01 && found.high > 0.01, "{found:?}");
            assert!(found.contains(0.0));
            assert_eq!(bootstrap.log_ratio(&run, &run, 0.95), Some(found));
        }
        assert_eq!(bootstrap.log_ratio(&[], &run(Estimator::Mean), 0.95), None);
        assert_eq!(
            bootstrap.log_ratio(&runs(&[0.0]), &runs(&[1.0]), 0.95),
            None
        );
    }
}
