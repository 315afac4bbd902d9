//! Which rate to try next, and between which rates the highest good one lies.
//!
//! A rate is called only when its requests leave little doubt: the share that missed the
//! objectives must lie far from the share that may, by a score test whose variance is widened by
//! how much misses cluster. What several runs say together decides, so runs near the edge repeat.

/// Rates are looked for between this and no bound.
const LEAST_RATE: f64 = 0.05;
/// The search gives up after this many runs.
pub(super) const MOST_RUNS: usize = 32;
/// One rate is run no more often than this.
pub(super) const MOST_REPEATS: usize = 6;
/// The search ends when the two bounds are this close.
const CLOSE: f64 = 1.1;
/// Standard deviations to call a rate good, and bad: misses come in clusters, so their number has
/// a long upper tail. Chosen so that the interval holds the truth in 90 of 100 searches.
const SURE_GOOD: f64 = 1.96;
const SURE_BAD: f64 = 2.6;
/// How likely the truth is to lie in the interval.
pub(super) const CONFIDENCE: f64 = 0.9;
/// Of each run this share is left out: it found an idle server.
const IDLE_START: f64 = 0.1;
/// Misses are counted in this many parts of a run, to see how they cluster.
const PARTS: usize = 10;
/// Clustering is taken from rates within this factor, and evidence is shared within these.
const NEAR: f64 = 1.6;
const SHARED: [f64; 3] = [1.1, 1.2, 1.35];
/// The variance of misses over that of independent ones, where there were too few to see.
const USUAL_CLUSTERING: f64 = 3.0;

/// What is known of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Good,
    Bad,
    Open,
}

/// All runs at one rate.
#[derive(Clone, Debug)]
struct Evidence {
    rate: f64,
    runs: usize,
    requests: f64,
    missed: f64,
    /// Requests and misses in each part of each run.
    parts: Vec<(f64, f64)>,
}

/// The rates between which the highest good one lies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Interval {
    /// The highest rate that was shown to be good.
    pub(super) good: Option<f64>,
    /// The lowest above it that was shown to be bad.
    pub(super) bad: Option<f64>,
}

/// A search under way.
#[derive(Clone, Debug)]
pub(super) struct Search {
    /// The share of requests that may miss the objectives.
    allowed: f64,
    first: f64,
    seen: Vec<Evidence>,
    runs: usize,
}

impl Search {
    /// A search for the highest rate at which this share of requests meets the objectives.
    pub(super) fn starting_at(first: f64, share: f64) -> Self {
        Self {
            allowed: (1.0 - share).max(1e-6),
            first,
            seen: Vec::new(),
            runs: 0,
        }
    }

    /// Takes in a run: whether each of its requests met the objectives, in the order of arrival.
    pub(super) fn learn(&mut self, rate: f64, met: &[bool]) {
        let met = &met[(met.len() as f64 * IDLE_START) as usize..];
        self.runs += 1;
        let known = self
            .seen
            .iter()
            .position(|seen| (seen.rate / rate - 1.0).abs() < 1e-9);
        let place = known.unwrap_or_else(|| {
            self.seen.push(Evidence {
                rate,
                runs: 0,
                requests: 0.0,
                missed: 0.0,
                parts: Vec::new(),
            });
            self.seen.len() - 1
        });
        let evidence = &mut self.seen[place];
        evidence.runs += 1;
        for part in met.chunks(met.len().div_ceil(PARTS).max(1)) {
            let missed = part.iter().filter(|met| !**met).count() as f64;
            evidence.parts.push((part.len() as f64, missed));
            evidence.requests += part.len() as f64;
            evidence.missed += missed;
        }
    }

    /// The rate to run next; nothing when the search is over.
    pub(super) fn next(&self) -> Option<f64> {
        if self.runs >= MOST_RUNS {
            return None;
        }
        let looks_good = |seen: &&Evidence| seen.missed <= seen.requests * self.allowed;
        let good = self.seen.iter().filter(looks_good).map(|seen| seen.rate);
        let bad = self.seen.iter().filter(|seen| !looks_good(seen));
        let (good, bad) = (highest(good), lowest(bad.map(|seen| seen.rate)));
        match (good, bad) {
            (None, None) => Some(self.first),
            (Some(good), None) => Some(good * 2.0),
            (None, Some(bad)) => Some(bad / 2.0).filter(|rate| *rate >= LEAST_RATE),
            (Some(_), Some(_)) => self.at_the_edge(),
        }
    }

    /// What the search has shown so far.
    pub(super) fn found(&self) -> Interval {
        let of = |wanted: Verdict| {
            let seen = self.seen.iter();
            seen.filter(move |seen| self.verdict(seen) == wanted)
                .map(|seen| seen.rate)
        };
        let good = highest(of(Verdict::Good));
        let bad = lowest(of(Verdict::Bad).filter(|bad| good.is_none_or(|good| *bad > good)));
        Interval { good, bad }
    }

    /// Whether any rate looked good, shown or not.
    pub(super) fn saw_good(&self) -> bool {
        let mut seen = self.seen.iter();
        seen.any(|seen| seen.missed <= seen.requests * self.allowed)
    }

    /// The next rate once one looked good and one bad.
    fn at_the_edge(&self) -> Option<f64> {
        let found = self.found();
        let Some(bad) = found.bad else {
            // The highest so far once more, and beyond when that does not help.
            let top = self.seen.iter().max_by(|a, b| a.rate.total_cmp(&b.rate))?;
            let beyond = top.runs >= MOST_REPEATS || self.verdict(top) != Verdict::Open;
            return Some(if beyond { top.rate * 1.25 } else { top.rate });
        };
        let least = lowest(self.seen.iter().map(|seen| seen.rate))?;
        let good = found.good.unwrap_or(least.min(bad) / 2.0);
        if found.good.is_some() && bad / good <= CLOSE {
            return None;
        }
        let middle = (good * bad).sqrt();
        let open = self.seen.iter().filter(|seen| {
            good < seen.rate && seen.rate < bad && self.verdict(seen) == Verdict::Open
        });
        let (again, given_up): (Vec<&Evidence>, Vec<&Evidence>) =
            open.partition(|seen| seen.runs < MOST_REPEATS);
        let distance = |seen: &&Evidence| (seen.rate / middle).ln().abs();
        let nearest = again
            .into_iter()
            .min_by(|a, b| distance(a).total_cmp(&distance(b)));
        if let Some(nearest) = nearest {
            return Some(nearest.rate);
        }
        let rates = || given_up.iter().map(|seen| seen.rate);
        let (Some(low), Some(high)) = (lowest(rates()), highest(rates())) else {
            return Some(middle);
        };
        // Rates that cannot be called lie between: the wider side of them has room for another.
        let (below, above) = (low / good, bad / high);
        if below.max(above) <= CLOSE.sqrt() {
            return None;
        }
        Some(if below >= above {
            (good * low).sqrt()
        } else {
            (high * bad).sqrt()
        })
        .filter(|rate| *rate >= LEAST_RATE)
    }

    fn verdict(&self, of: &Evidence) -> Verdict {
        let clustering = self.clustering(of.rate);
        let distance = |from: f64, to: f64| {
            let seen = self.seen.iter();
            let (requests, missed) = seen
                .filter(|seen| from <= seen.rate && seen.rate <= to)
                .fold((0.0, 0.0), |(requests, missed), seen| {
                    (requests + seen.requests, missed + seen.missed)
                });
            let variance = self.allowed * (1.0 - self.allowed) * clustering / requests;
            (missed / requests - self.allowed) / variance.sqrt()
        };
        // Misses never become fewer as the rate grows: what higher rates keep, this one keeps, and
        // what lower ones miss, it misses.
        let (just_below, just_above) = (of.rate * (1.0 - 1e-9), of.rate * (1.0 + 1e-9));
        for factor in [1.0].into_iter().chain(SHARED) {
            if distance(of.rate / factor * (1.0 - 1e-9), just_above) > SURE_BAD {
                return Verdict::Bad;
            }
            if distance(just_below, of.rate * factor * (1.0 + 1e-9)) < -SURE_GOOD {
                return Verdict::Good;
            }
        }
        Verdict::Open
    }

    /// The variance of misses near a rate over that of independent ones, at least one.
    fn clustering(&self, rate: f64) -> f64 {
        let near = self.seen.iter().filter(|seen| {
            let share = seen.missed / seen.requests;
            (rate / NEAR..=rate * NEAR).contains(&seen.rate) && share > 0.0 && share <= 0.5
        });
        let (mut found, mut expected) = (0.0, 0.0);
        for seen in near {
            let share = seen.missed / seen.requests;
            for (requests, missed) in &seen.parts {
                found += (missed - requests * share).powi(2);
                expected += requests * share * (1.0 - share);
            }
        }
        if expected < 0.5 {
            USUAL_CLUSTERING
        } else {
            (found / expected).max(1.0)
        }
    }
}

/// Requests of which none may miss before a share is shown, if misses did not cluster.
pub(super) fn needed(share: f64) -> usize {
    let allowed = (1.0 - share).max(1e-6);
    (SURE_GOOD * SURE_GOOD * (1.0 - allowed) / allowed).ceil() as usize
}

/// Requests in a run at a rate: enough for its seconds, and for some of them to miss.
pub(super) fn run_size(rate: f64, seconds: f64, share: f64) -> usize {
    let told = 3.0 / (1.0 - share).max(1e-6);
    (rate * seconds).max(told).max(20.0) as usize
}

fn highest(rates: impl Iterator<Item = f64>) -> Option<f64> {
    rates.max_by(f64::total_cmp)
}

fn lowest(rates: impl Iterator<Item = f64>) -> Option<f64> {
    rates.min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests;
