//! Servers behind https: the same figures as without, and strangers turned away.
#![expect(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod support;

use bench::client::{Client, Trust, USUAL_TIME_LIMIT};
use bench::dataset::Row;
use bench::load::LoadOutcome;
use bench::pace::Burst;
use bench::record::{Failure, RequestRecord};
use rustls::version::{TLS12, TLS13};
use rustls::{ALL_VERSIONS, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::bench::{Bench, SHARE_GPT, answer, milliseconds};
use support::sealed::{Sealed, server_config, tls_file};
use support::{Printed, data_text, drive, manner, numbered, row_number, run_with, serve};
use testkit::scripted_server::{Generation, Script, ScriptedServer, Voice};

const STREAMS: usize = 64;

/// Figures that do not depend on when things happened, in the reference's manner.
const SAME: &[&str] = &[
    "backend",
    "completed",
    "total_input_tokens",
    "total_output_tokens",
    "total_output_tokens_retokenized",
    "input_lens",
    "output_lens",
    "generated_texts",
    "errors",
];
/// The same in ours.
const SAME_STRICT: &[&str] = &[
    "completed",
    "failed",
    "failures",
    "total_input_tokens_dataset",
    "total_output_tokens",
    "output_tokens_counted_by",
];

fn run(bench: &Bench, base: &str, line: &str) -> Printed {
    let result = bench.path("result.jsonl");
    let line = line.replace("{data}", &data_text(""));
    let mut words = vec!["--base-url", base, "--output-file", &result];
    words.extend(["--disable-tqdm", "--output-details"]);
    words.extend(line.split_whitespace());
    serve(&words)
}

fn client(base: &str, backend: &str, trusted: &str) -> Client {
    let mut manner = manner(base, backend);
    manner.trust = Trust::in_file(Path::new(&tls_file(trusted))).unwrap();
    Client::start(manner, 1, USUAL_TIME_LIMIT).unwrap()
}

/// Puts 64 rows on a server at once: what came of it, and the zero of its clock.
fn burst(base: &str, backend: &str, trusted: &str) -> (LoadOutcome, Instant) {
    let mut client = client(base, backend, trusted);
    let origin = client.clock().origin();
    let outcome = drive(&mut client, &numbered(STREAMS, 12), Box::new(Burst), None);
    (outcome, origin)
}

#[test]
fn an_encrypted_server_gives_the_figures_of_a_plain_one() {
    let compare = |manners: &str| {
        let bench = Bench::with(answer);
        let sealed = Sealed::before(bench.server.address(), "server");
        let figures = |base: &str, more: &str| -> Value {
            let printed = run(&bench, base, &format!("{SHARE_GPT} {manners} {more}"));
            assert_eq!(printed.code, 0, "{manners}: {}{}", printed.out, printed.err);
            bench.result()
        };
        let plain = figures(&bench.server.base_url(), "");
        let authority = tls_file("authority.pem");
        let encrypted = figures(&sealed.base_url(), &format!("--ca-file {authority}"));
        assert_eq!(encrypted["completed"], 6, "{manners}");
        let strict = manners.contains("--strict");
        for key in if strict { SAME_STRICT } else { SAME } {
            assert!(!plain[key].is_null(), "{manners}: {key}");
            assert_eq!(plain[key], encrypted[key], "{manners}: {key}");
        }
    };
    // Most of a run in the reference's manner is its pause.
    std::thread::scope(|scope| {
        for manners in [
            "--backend sglang",
            "--backend sglang-oai",
            "--backend sglang-oai-chat",
            "--backend vllm --strict --warmup-requests 0",
            "--backend sglang-oai-chat --disable-stream --strict --warmup-requests 0",
            "--backend sglang --reference 0.5.23 --flush-cache",
        ] {
            scope.spawn(move || compare(manners));
        }
    });
}

#[test]
fn sixty_four_encrypted_streams_at_once_are_dated_as_their_bytes_arrive() {
    for (backend, voice, version) in [
        ("sglang", Voice::Native, &TLS13),
        ("sglang-oai", Voice::Completions, &TLS12),
    ] {
        let server = ScriptedServer::start(move |_| {
            Generation::steady(voice, 12, milliseconds(200), milliseconds(20)).script()
        })
        .unwrap();
        let sealed = Sealed::speaking(&[version], server.address(), "server");
        let (encrypted, origin) = burst(&sealed.base_url(), backend, "authority.pem");
        assert_eq!(sealed.most_at_once(), STREAMS);
        let mut delays = lateness(&server, &encrypted, origin);
        assert_eq!(delays.len(), 12 * STREAMS);
        delays.sort_unstable();
        let middle = delays[delays.len() / 2];
        assert!(middle < milliseconds(8), "{middle:?}");
        let (plain, _) = burst(&server.base_url(), backend, "authority.pem");
        for (plain, encrypted) in by_row(&plain).into_iter().zip(by_row(&encrypted)) {
            assert_eq!(encrypted.failure, None);
            assert_eq!(plain.text, encrypted.text);
            assert_eq!(plain.usage, encrypted.usage);
            let connected = encrypted.connected.unwrap();
            let first_byte = encrypted.first_byte.unwrap();
            assert!(encrypted.sent < connected && connected < first_byte);
        }
    }
}

/// How long after the server wrote it each part of each answer arrived.
fn lateness(server: &ScriptedServer, outcome: &LoadOutcome, origin: Instant) -> Vec<Duration> {
    let mut delays = Vec::new();
    for exchange in server.log() {
        let body = exchange.request.json();
        let row = row_number(&body["text"]).or_else(|| row_number(&body["prompt"]));
        let record = by_row(outcome)[row.unwrap()];
        // The first write is the head.
        for (chunk, sent) in record.chunks.iter().zip(&exchange.sends[1..]) {
            let arrived = origin + Duration::from_nanos(chunk.at.0);
            delays.push(arrived.saturating_duration_since(sent.before));
        }
    }
    delays
}

#[test]
fn long_requests_and_answers_pass_through_many_records() {
    let long = "calm ".repeat(400_000);
    let event = json!({ "text": long, "meta_info": { "completion_tokens": 1, "finish_reason": { "type": "length" } } });
    let server = ScriptedServer::start(move |_| {
        Script::events(milliseconds(1))
            .event(milliseconds(2), &event.to_string())
            .event(milliseconds(3), "[DONE]")
            .end(milliseconds(3))
    })
    .unwrap();
    let sealed = Sealed::before(server.address(), "server");
    let mut client = client(&sealed.base_url(), "sglang", "authority.pem");
    let row = Arc::new(Row::text(long.clone(), 1, 1));
    let rows = vec![row; 4];
    let outcome = drive(&mut client, &rows, Box::new(Burst), None);
    for (record, exchange) in outcome.records.iter().zip(server.log()) {
        assert_eq!((&record.failure, record.text == long), (&None, true));
        assert_eq!(exchange.request.json()["text"], long);
    }
    assert_eq!(outcome.records.len(), 4);
}

fn by_row(outcome: &LoadOutcome) -> Vec<&RequestRecord> {
    let mut records: Vec<_> = outcome.records.iter().collect();
    records.sort_by_key(|record| record.row);
    records
}

#[test]
fn an_unknown_authority_is_named_with_the_host_and_ends_like_a_server_that_is_not_there() {
    let bench = Bench::with(answer);
    let sealed = Sealed::before(bench.server.address(), "server");
    let base = sealed.base_url();
    let stranger = tls_file("self-signed.pem");
    let refusal = "the certificate of 127.0.0.1 is not accepted: unknown authority";
    for (more, says) in [
        (String::new(), "Failed to fetch model from "),
        (
            format!("--ca-file {stranger}"),
            "Failed to fetch model from ",
        ),
        ("--reference 0.5.23".to_owned(), "/v1/models: "),
        (
            format!("--model {} --warmup-requests 1", data_text("tokenizer")),
            "Warmup failed",
        ),
        ("--strict".to_owned(), "/v1/models"),
    ] {
        let printed = run(&bench, &base, &format!("{SHARE_GPT} {more}"));
        assert_eq!(printed.code, 1, "{more}");
        let all = printed.out + &printed.err;
        assert!(all.contains(refusal) && all.contains(says), "{more}: {all}");
    }
    assert!(
        bench.server.log().is_empty(),
        "nothing was sent to a stranger"
    );
    let (outcome, _) = burst(&base, "sglang", "self-signed.pem");
    for record in &outcome.records {
        let name = record.failure.as_ref().unwrap().name();
        assert!(
            name.starts_with(&format!("cannot connect ({refusal}")),
            "{name}"
        );
    }
    assert_eq!(outcome.records.len(), STREAMS);
}

#[test]
fn a_server_that_signed_its_own_certificate_is_accepted_when_it_is_named_and_by_its_name_only() {
    let bench = Bench::with(answer);
    let sealed = Sealed::before(bench.server.address(), "self-signed");
    let trusted = format!("{SHARE_GPT} --ca-file {}", tls_file("self-signed.pem"));
    let printed = run(&bench, &sealed.base_url(), &trusted);
    assert_eq!(printed.code, 0, "{}{}", printed.out, printed.err);
    let other = sealed.base_url().replace("127.0.0.1", "localhost");
    let printed = run(&bench, &other, &trusted);
    assert_eq!(printed.code, 1);
    assert!(
        printed.out.contains(
            "the certificate of localhost is not accepted: certificate not valid for name"
        ),
        "{}",
        printed.out
    );
}

#[test]
fn a_port_that_does_not_encrypt_is_said_to_be_one() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("https://{}", listener.local_addr().unwrap());
    // As plain servers do: the greeting is no request to them.
    let plain = std::thread::spawn(move || {
        for stream in listener.incoming().take(1 + STREAMS) {
            let mut stream = stream.unwrap();
            stream.read_exact(&mut [0; 64]).unwrap();
            stream
                .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .unwrap();
        }
    });
    let refusal = "127.0.0.1 does not speak TLS at this port";
    let printed = serve(&["--base-url", &base, "--dataset-name", "random-ids"]);
    assert_eq!(printed.code, 1);
    assert!(printed.out.contains(refusal), "{}", printed.out);
    let (outcome, _) = burst(&base, "sglang", "authority.pem");
    for record in &outcome.records {
        let name = record.failure.as_ref().unwrap().name();
        assert_eq!(name, format!("cannot connect ({refusal})"));
    }
    plain.join().unwrap();
}

#[test]
fn an_answer_that_breaks_off_is_cut_though_it_was_encrypted() {
    let server =
        ScriptedServer::start(|_| Script::events(milliseconds(1)).reset(milliseconds(5))).unwrap();
    let sealed = Sealed::before(server.address(), "server");
    let (outcome, _) = burst(&sealed.base_url(), "sglang", "authority.pem");
    for record in &outcome.records {
        let name = record.failure.as_ref().unwrap().name();
        assert!(name.starts_with("connection "), "{name}");
    }
}

#[test]
fn an_answer_that_ends_with_the_connection_is_whole_only_if_the_server_says_so() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("https://{}", listener.local_addr().unwrap());
    let config = server_config(ALL_VERSIONS, "server");
    let server = std::thread::spawn(move || {
        for farewell in [true, false] {
            let (stream, _) = listener.accept().unwrap();
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(session, stream);
            let read = stream.read(&mut [0; 16 * 1024]).unwrap();
            assert!(read > 0);
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
                .unwrap();
            let event = r#"{"text":"calm","meta_info":{"completion_tokens":1}}"#;
            write!(stream, "data: {event}\n\ndata: [DONE]\n\n").unwrap();
            if farewell {
                stream.conn.send_close_notify();
            }
            stream.flush().unwrap();
            stream.sock.shutdown(Shutdown::Write).unwrap();
            // The client closes first, so that nothing is reset.
            stream.sock.read_to_end(&mut Vec::new()).ok();
        }
    });
    for expected in [None, Some(Failure::Cut)] {
        let mut client = client(&base, "sglang", "authority.pem");
        let outcome = drive(&mut client, &numbered(1, 1), Box::new(Burst), None);
        assert_eq!(outcome.records[0].failure, expected);
        assert_eq!(outcome.records[0].text, "calm");
    }
    server.join().unwrap();
}

#[test]
fn one_batch_is_timed_over_https() {
    let bench = Bench::with(answer);
    let sealed = Sealed::before(bench.server.address(), "server");
    let (base, authority) = (sealed.base_url(), tls_file("authority.pem"));
    let (tokenizer, result) = (data_text("tokenizer"), bench.path("batch.jsonl"));
    let words = [
        "--base-url",
        &base,
        "--ca-file",
        &authority,
        "--tokenizer",
        &tokenizer,
        "--batch-size",
        "1",
        "--input-len",
        "8",
        "--output-len",
        "4",
        "--result-filename",
        &result,
    ];
    let printed = run_with(bench::one_batch::main, &words);
    assert_eq!(printed.code, 0, "{}{}", printed.out, printed.err);
    let text = std::fs::read_to_string(&result).unwrap();
    let line: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&line["batch_size"], &line["output_len"]),
        (&1.into(), &4.into())
    );
}
