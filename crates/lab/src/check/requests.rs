//! What single requests give away.

use bench::clock::Nanos;
use bench::record::RequestRecord;

use crate::finding::{Finding, Kind};
use crate::requests::{Timed, output_tokens, time};
use crate::run::Run;
use crate::statistics::{permutation_p, quantile};
use crate::verdict::percent;

/// Fewer requests than this say nothing about each other.
const AT_LEAST: usize = 20;
/// The first fifth of the requests must be slower than the rest by this factor…
const SLOWER: f64 = 1.25;
/// …and more often than chance allows.
const UNLIKELY: f64 = 0.01;
/// A request this many spreads away from the median is an outlier…
const SPREADS: f64 = 10.0;
/// …if it also took this many times the median.
const TIMES: f64 = 3.0;
/// Outliers that are described one by one.
const DESCRIBED: usize = 3;
/// Log lines that are quoted for each.
const QUOTED: usize = 3;
/// Prompts found in the cache below this share are not worth a word.
const CACHED: f64 = 0.01;
/// Token counts may differ by this share before it is worth a word.
const TOKENS_APART: f64 = 0.05;

/// Gives the server's log lines between two moments of the records' clock.
pub(crate) type Surroundings<'a> = &'a dyn Fn(Nanos, Nanos) -> Vec<String>;

pub(super) fn findings(
    run: &Run,
    records: &[RequestRecord],
    surroundings: Surroundings<'_>,
) -> Vec<Finding> {
    let good: Vec<&RequestRecord> = records.iter().filter(|record| record.succeeded()).collect();
    let mut findings = Vec::new();
    if run.figures.get("cache_hit_rate").is_none() {
        findings.extend(cache(&good));
    }
    findings.extend(tokens(&good));
    findings.extend(trend(&good));
    let burst = run.load.is_burst() && run.load.limit().is_none();
    if !burst {
        findings.extend(outliers(
            &good,
            Timed::First,
            "to the first token",
            surroundings,
        ));
    }
    findings.extend(outliers(&good, Timed::PerToken, "per token", surroundings));
    findings
}

fn cache(records: &[&RequestRecord]) -> Option<Finding> {
    let sum = |count: fn(&RequestRecord) -> Option<u64>| -> u64 {
        records.iter().filter_map(|record| count(record)).sum()
    };
    let cached = sum(|record| record.usage.cached_tokens);
    let prompts = sum(|record| {
        record
            .usage
            .prompt_tokens
            .or(Some(record.asked.prompt_tokens))
    });
    let share = cached as f64 / prompts.max(1) as f64;
    (share > CACHED).then(|| {
        let percent = share * 100.0;
        let text = format!("{percent:.1} % of the prompt tokens were found in the prefix cache");
        Finding::new(Kind::CacheHits, text)
    })
}

/// Output tokens that were asked for and those that the server says it made.
fn tokens(records: &[&RequestRecord]) -> Option<Finding> {
    let said = records
        .iter()
        .filter(|record| record.usage.output_tokens.is_some());
    let (mut asked, mut made) = (0, 0);
    for record in said {
        asked += record.asked.output_tokens;
        made += output_tokens(record);
    }
    let apart = made as f64 / asked.max(1) as f64 - 1.0;
    (asked > 0 && apart.abs() > TOKENS_APART).then(|| {
        let text = format!(
            "{asked} output tokens were asked for, the server made {made} ({})",
            percent(apart)
        );
        Finding::new(Kind::TokenMismatch, text)
    })
}

/// A first fifth that is slower per token than the rest: the server was still warming up.
fn trend(records: &[&RequestRecord]) -> Option<Finding> {
    let mut times: Vec<(Nanos, f64)> = records
        .iter()
        .filter_map(|record| Some((record.sent, time(record, Timed::PerToken)?)))
        .collect();
    if times.len() < AT_LEAST {
        return None;
    }
    times.sort_by_key(|(sent, _)| *sent);
    let values: Vec<f64> = times.into_iter().map(|(_, value)| value).collect();
    let (first, rest) = values.split_at(values.len() / 5);
    let median = |values: &[f64]| quantile(&mut values.to_vec(), 0.5);
    let (early, late) = (median(first), median(rest));
    let p = permutation_p(first, rest, 5)?;
    (early > SLOWER * late && p < UNLIKELY).then(|| {
        let text = format!(
            "the first fifth of the requests took {early:.1} ms per token, the rest {late:.1} ms: the \
             server was not warm"
        );
        Finding::new(Kind::Trend, text)
    })
}

fn outliers(
    records: &[&RequestRecord],
    timed: Timed,
    what: &str,
    surroundings: Surroundings<'_>,
) -> Option<Finding> {
    let mut times: Vec<(f64, &RequestRecord)> = records
        .iter()
        .filter_map(|record| Some((time(record, timed)?, *record)))
        .collect();
    if times.len() < AT_LEAST {
        return None;
    }
    let mut values: Vec<f64> = times.iter().map(|(value, _)| *value).collect();
    let median = quantile(&mut values, 0.5);
    let mut away: Vec<f64> = values.iter().map(|value| (value - median).abs()).collect();
    let spread = quantile(&mut away, 0.5) * 1.4826;
    let limit = (median + SPREADS * spread).max(TIMES * median);
    times.retain(|(value, _)| *value > limit);
    times.sort_by(|(one, _), (two, _)| two.total_cmp(one));
    if times.is_empty() {
        return None;
    }
    let described = times.iter().take(DESCRIBED).map(|(value, record)| {
        let lines = surroundings(record.sent, record.finished);
        let shown = lines.iter().take(QUOTED).map(|line| format!(" | {line}"));
        format!(
            "request {} {value:.0} ms{}",
            record.row,
            shown.collect::<String>()
        )
    });
    let text = format!(
        "{} of {} requests took far longer {what} than the median of {median:.1} ms: {}",
        times.len(),
        values.len(),
        described.collect::<Vec<_>>().join("; ")
    );
    Some(Finding::new(Kind::Outlier, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench::record::{Asked, Chunk, Due};

    fn record(row: usize, first_ms: u64, per_token_ms: u64) -> RequestRecord {
        let sent = Nanos(row as u64 * 50_000_000);
        let asked = Asked {
            prompt_tokens: 100,
            text_tokens: 100,
            vision_tokens: 0,
            output_tokens: 11,
        };
        let mut record = RequestRecord::begun(row, 0, Due::at(sent), sent, asked);
        let at = |milliseconds: u64| Nanos(sent.0 + milliseconds * 1_000_000);
        let chunk = |milliseconds, tokens| Chunk {
            at: at(milliseconds),
            tokens,
            text_end: 0,
        };
        record.chunks = [chunk(first_ms, 1), chunk(first_ms + 10 * per_token_ms, 11)]
            .into_iter()
            .collect();
        record.finished = at(first_ms + 10 * per_token_ms);
        record.usage.output_tokens = Some(11);
        record
    }

    fn run() -> Run {
        let text = "============ Serving Benchmark Result ============\nTraffic request rate: 20.0\n\
            ==================================================\n";
        crate::import::runs("x", text).remove(0).run
    }

    fn told(records: &[RequestRecord]) -> Vec<String> {
        let quote = |_: Nanos, _: Nanos| vec!["compiling".to_owned()];
        let found = findings(&run(), records, &quote);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn steady_requests_give_nothing_away() {
        let records: Vec<_> = (0..40)
            .map(|row| record(row, 20 + row as u64 % 3, 10))
            .collect();
        assert_eq!(told(&records), [""; 0]);
        assert_eq!(told(&[]), [""; 0]);
    }

    #[test]
    fn a_slow_beginning_is_told() {
        let slow = |row: usize| if row < 8 { 30 } else { 10 };
        let records: Vec<_> = (0..40).map(|row| record(row, 20, slow(row))).collect();
        let told = told(&records);
        assert!(
            told[0].contains("took 30.0 ms per token, the rest 10.0 ms"),
            "{told:?}"
        );
    }

    #[test]
    fn an_outlier_is_told_with_the_log_around_it() {
        let mut records: Vec<_> = (0..40)
            .map(|row| record(row, 20 + row as u64 % 3, 10))
            .collect();
        records[7] = record(7, 900, 10);
        assert_eq!(
            told(&records),
            [
                "outlier: 1 of 40 requests took far longer to the first token than the median of 21.0 \
              ms: request 7 900 ms | compiling"
            ]
        );
    }

    #[test]
    fn cached_prompts_and_missing_tokens_are_told() {
        let mut records: Vec<_> = (0..40).map(|row| record(row, 20, 10)).collect();
        for record in &mut records {
            record.usage.cached_tokens = Some(50);
            record.usage.output_tokens = Some(9);
        }
        let told = told(&records);
        assert_eq!(
            told[0],
            "cache hits: 50.0 % of the prompt tokens were found in the prefix cache"
        );
        assert!(
            told[1].contains("440 output tokens were asked for, the server made 360"),
            "{told:?}"
        );
    }
}
