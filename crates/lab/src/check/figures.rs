//! What the figures alone give away.

use crate::finding::{Finding, Kind};
use crate::run::Run;
use crate::verdict::percent;

/// Token counts may differ by this share before it is worth a word.
const TOKENS_APART: f64 = 0.05;
/// A gap this many times the usual one is a stall…
const STALL_TIMES: f64 = 100.0;
/// …if it is also this long, in milliseconds.
const STALL_AT_LEAST: f64 = 1000.0;
/// Cached prompts below this share are not worth a word, in percent.
const CACHED_AT_LEAST: f64 = 1.0;

/// What a run's figures give away.
pub(super) fn findings(run: &Run) -> Vec<Finding> {
    let checks = [tokens, queueing, peaks, stall, failures, cache];
    checks.iter().filter_map(|check| check(run)).collect()
}

/// The tokens that were counted and those that the texts have.
fn tokens(run: &Run) -> Option<Finding> {
    let counted = run.figures.get("total_output_tokens")?;
    let again = run.figures.get("total_output_tokens_retokenized")?;
    let apart = again / counted - 1.0;
    (counted > 0.0 && apart.abs() > TOKENS_APART).then(|| {
        let text = format!(
            "{counted:.0} output tokens were counted, the texts have {again:.0} ({})",
            percent(apart)
        );
        Finding::new(Kind::TokenMismatch, text)
    })
}

fn queueing(run: &Run) -> Option<Finding> {
    let open = run.load.is_burst() && run.load.limit().is_none();
    let requests = run.figures.get("completed").filter(|_| open)?;
    let wait = run.figures.get("mean_ttft_ms")?;
    let text = format!(
        "all {requests:.0} requests were sent at once without a limit: times to the first token \
         (mean {:.1} s) measure the queue",
        wait / 1000.0
    );
    Some(Finding::new(Kind::OpenLoop, text))
}

fn peaks(run: &Run) -> Option<Finding> {
    let limit = run.load.limit()?;
    let peak = run.figures.get("max_concurrent_requests")?;
    (peak > limit).then(|| {
        let text =
            format!("{peak:.0} requests at once cannot have been with a limit of {limit:.0}");
        Finding::new(Kind::PeakOvercount, text)
    })
}

fn stall(run: &Run) -> Option<Finding> {
    let longest = run.figures.get("max_itl_ms")?;
    let usual = run
        .figures
        .get("median_itl_ms")
        .filter(|usual| *usual > 0.0)?;
    let times = longest / usual;
    (times > STALL_TIMES && longest > STALL_AT_LEAST).then(|| {
        let text = format!(
            "the longest gap between tokens is {:.1} s, {times:.0} times the median",
            longest / 1000.0
        );
        Finding::new(Kind::Stall, text)
    })
}

fn failures(run: &Run) -> Option<Finding> {
    let completed = run.figures.get("completed")?;
    let asked = run.load.number("num_prompts");
    let failed = run
        .figures
        .get("failed")
        .or_else(|| asked.map(|asked| asked - completed))?;
    (failed > 0.0).then(|| {
        let text = format!("{failed:.0} of {:.0} requests failed", failed + completed);
        Finding::new(Kind::Failures, text)
    })
}

fn cache(run: &Run) -> Option<Finding> {
    let share = run.figures.get("cache_hit_rate")?;
    (share > CACHED_AT_LEAST).then(|| {
        let text = format!("{share:.1} % of the prompt tokens were found in the prefix cache");
        Finding::new(Kind::CacheHits, text)
    })
}
