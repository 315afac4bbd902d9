//! The values of single requests behind a run's figure.

use bench::record::RequestRecord;

use crate::statistics::Estimator;

/// What is timed of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timed {
    /// From sending to the first token.
    First,
    /// Each token after the first.
    PerToken,
    /// From sending to the end.
    Whole,
}

/// The part of a request that a metric is about, and how its figure is made; nothing for metrics
/// that are no summary of requests.
pub(crate) fn behind(metric: &str) -> Option<(Timed, Estimator)> {
    let (estimator, family) = metric.split_once('_')?;
    let estimator = match estimator {
        "mean" => Estimator::Mean,
        "median" => Estimator::Quantile(0.5),
        "p90" => Estimator::Quantile(0.9),
        "p95" => Estimator::Quantile(0.95),
        "p99" => Estimator::Quantile(0.99),
        _ => return None,
    };
    let timed = match family {
        "ttft_ms" => Timed::First,
        "tpot_ms" => Timed::PerToken,
        "e2e_latency_ms" => Timed::Whole,
        _ => return None,
    };
    Some((timed, estimator))
}

/// The times of the requests that ended well, in milliseconds.
pub(crate) fn times(records: &[RequestRecord], timed: Timed) -> Vec<f64> {
    let good = records.iter().filter(|record| record.succeeded());
    good.filter_map(|record| time(record, timed)).collect()
}

/// The gaps between the parts of streams that ended well, in milliseconds.
pub(crate) fn gaps(records: &[RequestRecord]) -> Vec<f64> {
    let good = records.iter().filter(|record| record.succeeded());
    let gaps = good.flat_map(|record| {
        let pairs = record.chunks.iter().zip(record.chunks.iter().skip(1));
        pairs.map(|(before, after)| after.at.seconds_since(before.at) * 1000.0)
    });
    gaps.collect()
}

/// The time of one request in milliseconds, if it has one.
pub(crate) fn time(record: &RequestRecord, timed: Timed) -> Option<f64> {
    let first = record
        .chunks
        .first()
        .map(|chunk| chunk.at.seconds_since(record.sent));
    let whole = record.finished.seconds_since(record.sent);
    let seconds = match timed {
        Timed::First => first?,
        Timed::Whole => whole,
        Timed::PerToken => {
            let tokens = output_tokens(record)
                .checked_sub(1)
                .filter(|later| *later > 0)?;
            (whole - first?) / tokens as f64
        }
    };
    Some(seconds * 1000.0)
}

/// Output tokens by what the server said, else by what was asked for.
pub(crate) fn output_tokens(record: &RequestRecord) -> u64 {
    let streamed = record.chunks.last().map(|chunk| u64::from(chunk.tokens));
    let said = record
        .usage
        .output_tokens
        .or(streamed.filter(|tokens| *tokens > 0));
    said.unwrap_or(record.asked.output_tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench::clock::Nanos;
    use bench::record::{Asked, Chunk, Due};

    #[test]
    fn times_are_those_of_the_record() {
        let sent = Nanos(1_000_000_000);
        let mut record = RequestRecord::begun(0, 0, Due::at(sent), sent, Asked::default());
        record.asked.output_tokens = 9;
        let chunk = |milliseconds: u64, tokens| Chunk {
            at: Nanos(sent.0 + milliseconds * 1_000_000),
            tokens,
            text_end: 0,
        };
        record.chunks = [chunk(20, 1), chunk(60, 5)].into_iter().collect();
        record.finished = Nanos(sent.0 + 64_000_000);
        for (timed, expected) in [
            (Timed::First, 20.0),
            (Timed::PerToken, 11.0),
            (Timed::Whole, 64.0),
        ] {
            let found = times(std::slice::from_ref(&record), timed);
            assert!((found[0] - expected).abs() < 1e-9, "{timed:?} {found:?}");
        }
        assert!((gaps(std::slice::from_ref(&record))[0] - 40.0).abs() < 1e-9);
        assert_eq!(
            behind("p99_ttft_ms"),
            Some((Timed::First, Estimator::Quantile(0.99)))
        );
        assert_eq!(behind("request_throughput"), None);
        assert_eq!(behind("mean_itl_ms"), None);
    }
}
