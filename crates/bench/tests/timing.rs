//! The client's clock against the server's own log.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot unwrap has failed"
)]

mod support;
mod truth;

use bench::client::{Client, USUAL_TIME_LIMIT};
use bench::clock::{Clock, Nanos};
use bench::pace::Burst;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use support::{drive, manner, numbered};
use testkit::scripted_server::{Exchange, Generation, Script, ScriptedServer, Voice};

const STREAMS: usize = 1000;

fn generation(row: usize) -> Generation {
    let first = Duration::from_millis(300 + (row as u64 * 7) % 500);
    Generation::steady(
        Voice::Native,
        12,
        first,
        Duration::from_millis(50 + row as u64 % 150),
    )
}

fn row_of(exchange: &Exchange) -> usize {
    let text = exchange.request.json()["text"].as_str().unwrap().to_owned();
    text.strip_prefix("row ").unwrap().parse().unwrap()
}

/// How far a moment lies outside the time in which the server made its write.
fn outside(clock: Clock, at: Nanos, before: Instant, after: Instant) -> f64 {
    let at = clock.origin() + Duration::from_nanos(at.0);
    let early = before.saturating_duration_since(at);
    let late = at.saturating_duration_since(after);
    early.max(late).as_secs_f64()
}

fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share).round() as usize]
}

#[test]
fn a_thousand_streams_are_dated_as_the_server_sent_them() {
    let server = ScriptedServer::start(|request| {
        let text = request.json()["text"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        match text.strip_prefix("row ").and_then(|row| row.parse().ok()) {
            Some(row) => generation(row).script(),
            None => Script::whole("404 Not Found", "text/plain", "?"),
        }
    })
    .unwrap();
    let mut client =
        Client::start(manner(&server.base_url(), "sglang"), 1, USUAL_TIME_LIMIT).unwrap();
    let clock = client.clock();
    let outcome = drive(&mut client, &numbered(STREAMS, 12), Box::new(Burst), None);
    let own = client.finish();
    let log: BTreeMap<usize, Exchange> = server
        .log()
        .into_iter()
        .map(|exchange| (row_of(&exchange), exchange))
        .collect();
    assert_eq!((outcome.records.len(), log.len()), (STREAMS, STREAMS));

    let mut errors = Vec::new();
    for record in &outcome.records {
        assert_eq!(record.failure, None, "row {}", record.row);
        assert_eq!(record.usage.output_tokens, Some(12));
        let sends = &log[&record.row].sends;
        assert_eq!(record.chunks.len() + 1, sends.len());
        for (chunk, sent) in record.chunks.iter().zip(&sends[1..]) {
            errors.push(outside(clock, chunk.at, sent.before, sent.after));
        }
    }
    let p99 = percentile(&mut errors, 0.99);
    let worst = percentile(&mut errors, 1.0);
    println!(
        "own timing error over {} events: p99 {:.1} us, worst {:.1} us; read lag p99 {:.1} us; unstamped: {}",
        errors.len(),
        p99 * 1e6,
        worst * 1e6,
        own.read_lag.quantile(0.99) as f64 / 1e3,
        own.unstamped,
    );
    assert!(p99 < 200e-6, "p99 timing error {:.1} us", p99 * 1e6);
}
