//! Figures against the server's own log, and failures by name, at a thousand streams.
#![expect(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod support;

use bench::client::{Backend, Client, USUAL_TIME_LIMIT};
use bench::load::LoadOutcome;
use bench::measure::reference::{Circumstances, View, figures};
use bench::measure::strict::StrictFigures;
use bench::pace::{Arrivals, Burst, Drift, Gaps};
use bench::record::RequestRecord;
use bench::release::Release;
use bench::vocabulary::Vocabulary;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use support::{data_text, drive, manner, numbered, row_number};
use testkit::scripted_server::{Exchange, Generation, Request, Script, ScriptedServer, Voice};

const STREAMS: usize = 1000;

fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn prompt_number(request: &Request) -> Option<usize> {
    let body = request.json();
    row_number(&body["text"]).or_else(|| row_number(&body["prompt"]))
}

fn vocabulary() -> Vocabulary {
    Vocabulary::from_path(&data_text("tokenizer")).unwrap()
}

/// What the server did about each row.
fn by_row(server: &ScriptedServer) -> BTreeMap<usize, Exchange> {
    let log = server.log().into_iter();
    log.map(|exchange| (prompt_number(&exchange.request).unwrap(), exchange))
        .collect()
}

/// What one request must show by the server's log and the moment it was sent.
struct Expected {
    ttft: f64,
    e2e: f64,
    gaps: Vec<f64>,
}

fn expected(record: &RequestRecord, exchange: &Exchange, origin: Instant) -> Expected {
    let sent = origin + Duration::from_nanos(record.sent.0);
    // The first write is the head; the last event and [DONE] share a write.
    let events: Vec<Instant> = exchange.sends[1..].iter().map(|sent| sent.before).collect();
    let since = |later: Instant, earlier: Instant| later.duration_since(earlier).as_secs_f64();
    Expected {
        ttft: since(events[0], sent),
        e2e: since(*events.last().unwrap(), sent),
        gaps: events
            .windows(2)
            .map(|pair| since(pair[1], pair[0]))
            .collect(),
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    values.iter().sum::<f64>() / values.len() as f64
}

fn close(name: &str, found: f64, expected_ms: f64) {
    assert!(
        (found - expected_ms).abs() < 1.0,
        "{name}: {found} ms, the server says {expected_ms} ms"
    );
}

#[test]
fn every_figure_equals_the_script_at_a_thousand_streams() {
    let server = ScriptedServer::start(|request| match prompt_number(request) {
        // from 1 ms to 1 s to the first token, from 1 ms to a quarter second between tokens
        Some(row) => Generation::steady(
            Voice::Native,
            8,
            milliseconds(1 + (row as u64 * 37) % 1000),
            milliseconds(1 + (row as u64 * 11) % 250),
        )
        .script(),
        None => Script::whole("404 Not Found", "text/plain", "?"),
    })
    .unwrap();
    let mut client =
        Client::start(manner(&server.base_url(), "sglang"), 1, USUAL_TIME_LIMIT).unwrap();
    let origin = client.clock().origin();
    let outcome = drive(&mut client, &numbered(STREAMS, 8), Box::new(Burst), None);
    drop(client);
    let log = by_row(&server);
    let backend = Backend::named("sglang").unwrap();
    let vocabulary = vocabulary();
    let strict = StrictFigures::of(&outcome.records, backend, &vocabulary, None);
    let view = View {
        backend,
        release: Release::USUAL,
        gap_per_event: false,
    };
    let duration = outcome.ended.seconds_since(outcome.started);
    let circumstances = Circumstances {
        view,
        duration,
        accept_length: None,
        vocabulary: &vocabulary,
        conversations: false,
    };
    let compat = figures(&outcome.records, &circumstances);
    assert_eq!(
        (strict.completed, strict.failed(), compat.completed),
        (STREAMS, 0, STREAMS)
    );
    assert_eq!(
        (strict.output, compat.output),
        (8 * STREAMS as u64, 8 * STREAMS as u64)
    );
    let all: Vec<Expected> = outcome
        .records
        .iter()
        .map(|record| expected(record, &log[&record.row], origin))
        .collect();
    let ttft = mean(all.iter().map(|expected| expected.ttft)) * 1e3;
    let e2e = mean(all.iter().map(|expected| expected.e2e)) * 1e3;
    let gaps = mean(
        all.iter()
            .flat_map(|expected| expected.gaps.iter().copied()),
    ) * 1e3;
    for (mode, found) in [
        (
            "strict",
            [strict.ttft.mean, strict.e2e.mean, strict.itl.mean],
        ),
        (
            "compat",
            [compat.ttft.mean, compat.e2e.mean, compat.itl.mean],
        ),
    ] {
        close(&format!("{mode} mean TTFT"), found[0], ttft);
        close(&format!("{mode} mean E2E"), found[1], e2e);
        close(&format!("{mode} mean ITL"), found[2], gaps);
    }
    check_percentiles(&strict, &all);
}

fn check_percentiles(strict: &StrictFigures, all: &[Expected]) {
    let percentile = |values: &mut Vec<f64>, share: f64| {
        values.sort_by(f64::total_cmp);
        bench::measure::percentile(values, share) * 1e3
    };
    let mut firsts: Vec<f64> = all.iter().map(|expected| expected.ttft).collect();
    let mut wholes: Vec<f64> = all.iter().map(|expected| expected.e2e).collect();
    let mut all_gaps: Vec<f64> = all
        .iter()
        .flat_map(|expected| expected.gaps.clone())
        .collect();
    for (share, ttft, e2e, itl) in [
        (99.0, strict.ttft.p99, strict.e2e.p99, strict.itl.p99),
        (90.0, strict.ttft.p90, strict.e2e.p90, strict.itl.p90),
    ] {
        close("TTFT percentile", ttft, percentile(&mut firsts, share));
        close("E2E percentile", e2e, percentile(&mut wholes, share));
        close("ITL percentile", itl, percentile(&mut all_gaps, share));
    }
}

#[test]
fn an_open_loop_keeps_its_schedule_and_sees_the_script_itself() {
    let server = ScriptedServer::start(|_| {
        Generation::steady(Voice::Native, 6, milliseconds(40), milliseconds(10)).script()
    })
    .unwrap();
    let mut client =
        Client::start(manner(&server.base_url(), "sglang"), 1, USUAL_TIME_LIMIT).unwrap();
    let pace = Arrivals::new(200.0, Gaps::Constant, Drift::Absolute);
    let outcome = drive(&mut client, &numbered(300, 6), Box::new(pace), None);
    let strict = StrictFigures::of(
        &outcome.records,
        Backend::named("sglang").unwrap(),
        &vocabulary(),
        None,
    );
    assert!(
        (strict.achieved_rate - 200.0).abs() < 4.0,
        "{}",
        strict.achieved_rate
    );
    // The server itself may be late on a busy machine; medians, so that moments do not matter.
    assert!(
        (strict.ttft.median - 40.0).abs() < 3.0,
        "{}",
        strict.ttft.median
    );
    assert!(
        (strict.itl.median - 10.0).abs() < 2.0,
        "{}",
        strict.itl.median
    );
    assert!(
        (strict.e2e.median - 90.0).abs() < 5.0,
        "{}",
        strict.e2e.median
    );
}

/// The ways to answer, each of which a tenth of the requests meets.
fn trouble(row: usize) -> Script {
    let event = |text: &str, tokens: usize| {
        format!(
            r#"{{"text":"{text}","meta_info":{{"completion_tokens":{tokens},"finish_reason":null}}}}"#
        )
    };
    let done = |script: Script, at: u64| {
        script
            .event(milliseconds(at), "[DONE]")
            .end(milliseconds(at))
    };
    let stream = || Script::events(milliseconds(5));
    match row % 10 {
        0 => done(
            stream()
                .event(milliseconds(10), &event("a b c", 3))
                .event(milliseconds(20), &event("a b c d e", 5)),
            25,
        ),
        1 => {
            // One event in three writes, cut inside a character and before the line end.
            let bytes = format!("data: {}\n\n", event("né😀", 2)).into_bytes();
            let cut = bytes.iter().position(|byte| *byte == 0xf0).unwrap() + 2;
            let script = stream()
                .chunk(milliseconds(10), &bytes[..cut])
                .chunk(milliseconds(20), &bytes[cut..bytes.len() - 2])
                .chunk(milliseconds(30), b"\n\n");
            done(script, 35)
        }
        2 => stream()
            .event(milliseconds(10), &event("a", 1))
            .event(milliseconds(20), r#"{"error":{"message":"out of memory"}}"#)
            .event(milliseconds(21), "[DONE]")
            .end(milliseconds(21)),
        3 => stream()
            .event(milliseconds(10), &event("a", 1))
            .reset(milliseconds(20)),
        4 => stream()
            .event(milliseconds(10), &event("a", 1))
            .close(milliseconds(20)),
        5 => stream().event(milliseconds(10), &event("a", 1)),
        6 => Script::whole(
            "429 Too Many Requests",
            "application/json",
            r#"{"error":"slow down"}"#,
        ),
        7 => Script::whole("503 Service Unavailable", "text/plain", "busy"),
        8 => Script::whole("200 OK", "text/html", "<html>login</html>"),
        _ => stream()
            .event(milliseconds(10), "this is no JSON")
            .end(milliseconds(11)),
    }
}

/// The outcome, the server's log by row, and the origin of the client's clock.
fn troubled() -> (LoadOutcome, BTreeMap<usize, Exchange>, Instant) {
    let server = ScriptedServer::start(|request| {
        prompt_number(request).map_or_else(
            || Script::whole("404 Not Found", "text/plain", "?"),
            trouble,
        )
    })
    .unwrap();
    let limit = Duration::from_secs(2);
    let mut client = Client::start(manner(&server.base_url(), "sglang"), 2, limit).unwrap();
    let origin = client.clock().origin();
    let outcome = drive(&mut client, &numbered(STREAMS, 8), Box::new(Burst), None);
    (outcome, by_row(&server), origin)
}

#[test]
fn every_failure_among_a_thousand_streams_is_counted_and_named() {
    let (outcome, log, origin) = troubled();
    let strict = StrictFigures::of(
        &outcome.records,
        Backend::named("sglang").unwrap(),
        &vocabulary(),
        None,
    );
    assert_eq!((strict.sent, strict.completed), (STREAMS, STREAMS / 5));
    let failures: BTreeMap<&str, usize> = strict
        .failures
        .iter()
        .map(|(name, count)| (name.as_str(), *count))
        .collect();
    let each = STREAMS / 10;
    let expected = [
        ("HTTP 429 Too Many Requests", each),
        ("HTTP 503 Service Unavailable", each),
        ("connection closed early", each),
        ("connection lost (connection reset by peer)", each),
        ("error in the stream", each),
        ("malformed answer", each),
        ("no answer within 2 s", each),
        ("wrong content type (text/html)", each),
    ];
    assert_eq!(failures, BTreeMap::from(expected));
    // What came before a failure is kept.
    for record in &outcome.records {
        assert_eq!(
            !record.chunks.is_empty(),
            [0, 1, 2, 3, 4, 5].contains(&(record.row % 10))
        );
    }
    // A split frame is dated by the write that ends its line, the fourth of its answer, or by one
    // that had come when it was read; never by an earlier one.
    for record in outcome.records.iter().filter(|record| record.row % 10 == 1) {
        let sends = &log[&record.row].sends;
        let at = origin + Duration::from_nanos(record.chunks.first().unwrap().at.0);
        let room = milliseconds(1);
        let last = sends.last().unwrap().after;
        assert!(
            at + room >= sends[3].before && at <= last + room,
            "row {}",
            record.row
        );
    }
    // Three tokens in the first event, two in the second: two gaps of half the time between them.
    assert_eq!(strict.output, (5 + 2) * each as u64);
}

#[test]
fn usage_that_comes_alone_is_counted_at_a_thousand_streams() {
    let server = ScriptedServer::start(|_| {
        let text =
            |text: &str| format!(r#"{{"choices":[{{"text":"{text}","finish_reason":null}}]}}"#);
        let usage = r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":7}}"#;
        Script::events(milliseconds(50))
            .event(milliseconds(200), &text(" the sea is"))
            .event(milliseconds(300), &text(" calm and we sail"))
            .event(milliseconds(301), usage)
            .event(milliseconds(301), "[DONE]")
            .end(milliseconds(301))
    })
    .unwrap();
    let manner = manner(&server.base_url(), "sglang-oai");
    let mut client = Client::start(manner, 1, USUAL_TIME_LIMIT).unwrap();
    let origin = client.clock().origin();
    let outcome = drive(&mut client, &numbered(STREAMS, 7), Box::new(Burst), None);
    let log = by_row(&server);
    let backend = Backend::named("sglang-oai").unwrap();
    let strict = StrictFigures::of(&outcome.records, backend, &vocabulary(), None);
    assert_eq!((strict.completed, strict.failed()), (STREAMS, 0));
    assert_eq!(strict.output, 7 * STREAMS as u64);
    assert_eq!(strict.input_actual, Some(3 * STREAMS as u64));
    let ttft = mean(outcome.records.iter().map(|record| {
        let sent = origin + Duration::from_nanos(record.sent.0);
        let first = log[&record.row].sends[1].before;
        first.duration_since(sent).as_secs_f64()
    }));
    close("mean TTFT", strict.ttft.mean, ttft * 1e3);
}

#[test]
fn a_server_that_is_not_there_fails_every_request_by_name() {
    let server = ScriptedServer::start(|_| Script::default()).unwrap();
    let address = server.base_url();
    drop(server);
    let mut client = Client::start(manner(&address, "sglang"), 1, USUAL_TIME_LIMIT).unwrap();
    let outcome = drive(&mut client, &numbered(50, 8), Box::new(Burst), Some(8));
    let names: Vec<String> = outcome
        .records
        .iter()
        .map(|record| record.failure.as_ref().unwrap().name())
        .collect();
    assert_eq!(names, vec!["cannot connect (connection refused)"; 50]);
}

/// Ends the load once five requests are done.
struct InterruptAtFive(bench::client::Interrupter);

impl bench::load::Onlooker for InterruptAtFive {
    fn finished(&mut self, _: &RequestRecord, state: &bench::pace::LoadState) {
        if state.finished == 5 {
            self.0.interrupt();
        }
    }
    fn patience(&self) -> Duration {
        Duration::from_secs(1)
    }
    fn look(&mut self, _: &bench::pace::LoadState, _: usize) {}
}

#[test]
fn an_interrupt_ends_the_load_and_keeps_what_is_done() {
    let server = ScriptedServer::start(|request| match prompt_number(request) {
        Some(row) if row < 5 => {
            Generation::steady(Voice::Native, 2, milliseconds(1), milliseconds(1)).script()
        }
        _ => Script::events(milliseconds(1)),
    })
    .unwrap();
    let mut client =
        Client::start(manner(&server.base_url(), "sglang"), 1, USUAL_TIME_LIMIT).unwrap();
    let interrupter = client.interrupter();
    let rows = numbered(40, 2);
    let load = bench::load::Load {
        rows: &rows,
        adapters: &[],
        pace: Box::new(Burst),
        gate: Some(10),
        stop: bench::stop::StopRules::default(),
        again: false,
        skip: &|_| false,
    };
    let outcome = bench::load::run(&mut client, load, &mut InterruptAtFive(interrupter));
    assert!(outcome.interrupted);
    assert_eq!(
        outcome
            .records
            .iter()
            .filter(|record| record.succeeded())
            .count(),
        5
    );
    let abandoned = outcome.records.iter().filter(|record| !record.succeeded());
    assert!(
        abandoned
            .clone()
            .all(|record| record.failure.as_ref().unwrap().name() == "abandoned")
    );
    assert!(
        outcome.records.len() <= 15,
        "{} were sent",
        outcome.records.len()
    );
}
