//! What a reader of a strict run's figures should know.

use super::strict::CacheState;
use super::strict_result::StrictResult;
use crate::measure::cache::CacheHits;
use crate::stop::Stopped;

/// Hits above this share in a run that began cold are worth a word.
const NOT_COLD: f64 = 0.01;
/// A rate missed by more than this share is worth a word.
const RATE_MISSED: f64 = 0.05;
/// A server that serves less than this share of what is due is outrun.
const OUTRUN: f64 = 0.9;
/// A rate means nothing below this many requests.
const ENOUGH: usize = 50;
/// Lengths that differ by more than this share are worth a word.
const LENGTH_MISSED: f64 = 0.01;

impl StrictResult {
    /// What a reader of the figures should know.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        warnings.extend(self.resumption());
        warnings.extend(self.failures());
        if self.health.is_limited() {
            let limits = self.health.limits.join(", ");
            warnings.push(format!(
                "the client was the limit, not the server: {limits}"
            ));
        }
        warnings.extend(self.missed_rates());
        warnings.extend(self.hits());
        warnings.extend(self.lengths());
        if !self.warm_up.steady {
            warnings.push("the server was not steady when the load began".to_owned());
        }
        if self.stopped == Some(Stopped::Failures) {
            warnings.push("the load was stopped early: too many requests failed".to_owned());
        }
        warnings
    }

    fn resumption(&self) -> Option<String> {
        let (resumed, all) = (self.resumed, self.figures.sent);
        (resumed > 0).then(|| {
            format!(
                "{resumed} of {all} requests are of an earlier session: neither the pause between nor \
                 the warm-ups count, and figures that need the requests under way at the \
                 interruption are not known"
            )
        })
    }

    fn failures(&self) -> Option<String> {
        let figures = &self.figures;
        let reasons: Vec<String> = figures
            .failures
            .iter()
            .map(|(name, count)| format!("{count} × {name}"))
            .collect();
        let (failed, sent) = (figures.failed(), figures.sent);
        (failed > 0).then(|| format!("{failed} of {sent} requests failed: {}", reasons.join(", ")))
    }

    fn missed_rates(&self) -> Vec<String> {
        let figures = &self.figures;
        let mut warnings = Vec::new();
        // Arrivals that are drawn miss their mean by chance; what was drawn is the measure.
        let (achieved, scheduled) = (figures.achieved_rate, figures.scheduled_rate);
        if figures.sent > ENOUGH && achieved < scheduled * (1.0 - RATE_MISSED) {
            warnings.push(format!(
                "requests were sent at {achieved:.2} req/s, though they were due at {scheduled:.2} req/s"
            ));
        }
        if let Some(served) = figures.served_rate
            && self.rate.is_some_and(f64::is_finite)
            && served < scheduled * OUTRUN
        {
            warnings.push(format!(
                "requests were due at {scheduled:.2} req/s and served at {served:.2} req/s: the queue \
                 grew as long as the load lasted, and latencies grow with --num-prompts"
            ));
        }
        warnings
    }

    fn hits(&self) -> Option<String> {
        let hits = self.figures.cache.as_ref().map_or(0.0, CacheHits::rate);
        let cold = match self.cache {
            CacheState::Flushed => Some("began cold: prompts of this load share prefixes"),
            CacheState::NotFlushed => Some("the server did not empty"),
            CacheState::Filled | CacheState::Unknown => None,
        };
        cold.filter(|_| hits > NOT_COLD).map(|state| {
            format!(
                "{:.1} % of prompt tokens were found in a prefix cache that {state}",
                hits * 100.0
            )
        })
    }

    fn lengths(&self) -> Vec<String> {
        let figures = &self.figures;
        let mut warnings = Vec::new();
        if let Some(actual) = figures.input_actual
            && (actual as f64 / figures.input_nominal.max(1) as f64 - 1.0).abs() > LENGTH_MISSED
        {
            warnings.push(format!(
                "prompts have {actual} tokens by the server and {} by the dataset",
                figures.input_nominal
            ));
        }
        let shorter = figures.shorter;
        let missing = shorter.asked - shorter.tokens;
        if self.fixed_length && missing as f64 > (figures.output + missing) as f64 * LENGTH_MISSED {
            warnings.push(format!(
                "{} of {} answers are shorter than asked, {} of {} tokens: the server caps lengths or \
                 does not know ignore_eos",
                shorter.answers, figures.completed, shorter.tokens, shorter.asked
            ));
        }
        warnings
    }
}
