//! What an operator does to a server with `kill`, `curl` and a log file.

use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};

use super::process::{Server, Signal};

/// Long enough to be told to stop meanwhile.
const LONG: u32 = 2000;
/// Longer than any test waits.
const ENDLESS: u32 = 60_000;

#[test]
fn a_stop_signal_lets_streams_end_and_refuses_new_work() {
    for signal in [Signal::Terminate, Signal::Interrupt] {
        let mut server = Server::tiny(&[]);
        assert_eq!(server.ask("GET", "/health", &Value::Null).0, 200);
        let mut stream = server.stream(LONG);
        stream.event().unwrap();
        server.signal(signal);
        server.wait_for("Gracefully exiting... Remaining number of requests 1.");
        for path in ["/health", "/health_generate", "/ready"] {
            assert_eq!(server.ask("GET", path, &Value::Null).0, 503, "{path}");
        }
        let late = json!({"input_ids": [1], "sampling_params": {"max_new_tokens": 1}});
        let (status, answer) = server.ask("POST", "/generate", &late);
        assert_eq!(status, 503, "{answer}");
        let [last, done] = stream.read_to_end();
        assert_eq!(done, "[DONE]");
        let last: Value = serde_json::from_str(&last).unwrap();
        let reason = json!({"type": "length", "length": LONG});
        assert_eq!(last["meta_info"]["finish_reason"], reason);
        assert_eq!(last["output_ids"].as_array().unwrap().len(), LONG as usize);
        let (status, log) = server.end();
        assert_eq!(status.code(), Some(0), "{signal:?}\n{}", log.join("\n"));
    }
}

#[test]
fn no_connection_waits_for_a_larger_table_of_files() {
    let server = Server::tiny(&[]);
    let allowed = server.told("limits", "Max open files");
    assert!(server.told("status", "FDSize:") >= allowed.min(65_535));
}

#[test]
fn many_large_requests_do_not_crowd_out_the_engine() {
    let server = Server::tiny(&[]);
    let before = server.told("status", "Threads:");
    // Too much to be read in passing, and too long to be served.
    let body = json!({"input_ids": vec![1; 300_000]});
    assert_eq!(server.ask_at_once(24, "/generate", &body), [400; 24]);
    let cores = std::thread::available_parallelism().unwrap().get() as u64;
    let after = server.told("status", "Threads:");
    assert!(after <= before + cores, "{after} threads, {before} before");
}

#[test]
fn work_on_long_requests_yields_to_the_engine() {
    let server = Server::tiny(&[]);
    let body = json!({"input_ids": vec![1; 300_000]});
    assert_eq!(server.ask("POST", "/generate", &body).0, 400);
    let threads = server.threads();
    let own = threads
        .iter()
        .find(|(name, _)| name == "peregrine")
        .unwrap()
        .1;
    let (aside, others): (Vec<_>, Vec<_>) = threads.iter().partition(|(name, _)| name == "aside");
    assert!(!aside.is_empty() && !others.is_empty(), "{threads:?}");
    assert!(
        aside.iter().all(|(_, nice)| *nice == (own + 10).min(19)),
        "{threads:?}"
    );
    assert!(others.iter().all(|(_, nice)| *nice == own), "{threads:?}");
}

#[test]
fn a_second_stop_signal_does_not_wait() {
    for signal in [Signal::Terminate, Signal::Interrupt] {
        let mut server = Server::tiny(&[]);
        let mut stream = server.stream(ENDLESS);
        stream.event().unwrap();
        server.signal(signal);
        server.wait_for("Gracefully exiting... Remaining number of requests 1.");
        server.signal(signal);
        let (status, log) = server.end();
        assert_eq!(status.code(), Some(0), "{}", log.join("\n"));
        let [_, last] = stream.read_to_end();
        assert_ne!(last, "[DONE]");
    }
}

#[test]
fn a_client_that_does_not_read_cannot_keep_the_server_up() {
    let mut server = Server::tiny(&[]);
    // More bytes than the kernel keeps for a connection.
    let stalled = server.begin(3 * LONG);
    server.wait_for_load(1, 0);
    server.signal(Signal::Terminate);
    server.wait_for("Gracefully exiting... Remaining number of requests 1.");
    server.wait_for("Nobody reads the answers to 1 requests; exiting without.");
    let (status, _) = server.end();
    assert_eq!(status.code(), Some(0));
    drop(stalled);
}

#[test]
fn a_full_queue_answers_at_once_and_a_closed_stream_makes_room() {
    let one = ["--max-running-requests", "1", "--max-queued-requests", "1"];
    let server = Server::tiny(&one);
    let mut running = server.stream(ENDLESS);
    running.event().unwrap();
    let waiting = server.begin(ENDLESS);
    server.wait_for_load(2, 1);
    let more = json!({"input_ids": [1], "sampling_params": {"max_new_tokens": 1}});
    let (status, answer) = server.ask("POST", "/generate", &more);
    assert_eq!(status, 503, "{answer}");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("The request queue is full."), "{message}");
    drop(running);
    server.wait_for_load(1, 0);
    drop(waiting);
    server.wait_for_load(0, 0);
    assert_eq!(server.ask("POST", "/generate", &more).0, 200);
}

#[test]
fn a_more_important_request_takes_the_place_of_another_in_a_full_queue_and_in_a_row() {
    let one = ["--max-running-requests", "1", "--max-queued-requests", "1"];
    let server = Server::tiny(&[&one[..], &["--enable-priority-scheduling"]].concat());
    let with = |priority: i64, tokens: u32, stream: bool| {
        let sampling = json!({"max_new_tokens": tokens, "ignore_eos": true});
        let body = json!({"input_ids": [1], "priority": priority, "stream": stream, "sampling_params": sampling});
        server.post("/generate", &body)
    };
    let mut running = with(0, ENDLESS, true).stream();
    running.event().unwrap();
    let waiting = with(1, 1, false);
    server.wait_for_load(2, 1);
    // better than both, by more than ten than the one that runs
    let (status, answer) = with(11, 1, false).answer();
    assert_eq!(status, 200, "{answer}");
    let (status, answer) = waiting.answer();
    assert_eq!(status, 503, "{answer}");
    let message = "The request is aborted by a higher priority request.";
    assert_eq!(answer["error"]["message"], message);
    let gave_way = |event: String| {
        let event: Value = serde_json::from_str(&event).unwrap();
        event["meta_info"]["total_retractions"] == 1
    };
    assert!(std::iter::from_fn(|| running.event()).any(gave_way));
}

#[test]
fn lines_about_decoding_have_the_fields_that_log_parsers_read() {
    let server = Server::tiny(&["--decode-log-interval", "10"]);
    let mut stream = server.stream(200);
    assert_eq!(stream.read_to_end()[1], "[DONE]");
    server.signal(Signal::Terminate);
    let (_, log) = server.end();
    let lines: Vec<&str> = log
        .iter()
        .filter_map(|line| line.split_once("] Decode batch, ")?.1.strip_suffix(", "))
        .collect();
    assert!(lines.len() >= 10, "{}", log.join("\n"));
    for line in lines {
        let fields: Vec<(&str, &str)> = line
            .split(", ")
            .map(|field| field.rsplit_once(": ").unwrap())
            .collect();
        let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
        let expected = [
            "#running-req",
            "#token",
            "token usage",
            "cuda graph",
            "gen throughput (token/s)",
            "#queue-req",
        ];
        assert_eq!(names, expected, "{line}");
        assert_eq!(fields[0].1, "1", "{line}");
        assert!(fields[1].1.parse::<u32>().unwrap() > 0, "{line}");
        let usage = fields[2].1;
        assert!(
            usage.len() == 4 && usage.parse::<f32>().unwrap() < 1.0,
            "{line}"
        );
        assert_eq!(fields[3].1, "False", "{line}");
        assert!(fields[4].1.parse::<f32>().unwrap() > 0.0, "{line}");
        assert_eq!(fields[5].1, "0", "{line}");
    }
}

#[test]
fn a_hang_up_ends_nothing() {
    let mut server = Server::tiny(&[]);
    let mut stream = server.stream(LONG);
    stream.event().unwrap();
    server.signal(Signal::HangUp);
    server.wait_for("SIGHUP ignored: there are no TLS files to read again");
    assert_eq!(stream.read_to_end()[1], "[DONE]");
    assert_eq!(server.stop().0, Some(0));
}

#[test]
fn a_hang_up_reads_the_certificate_again_and_keeps_it_when_that_is_broken() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["certificate.pem", "key.pem"].map(|name| folder.path().join(name));
    let renew = || {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        std::fs::write(&paths[0], cert.pem()).unwrap();
        std::fs::write(&paths[1], signing_key.serialize_pem()).unwrap();
    };
    renew();
    let [certificate, key] = paths.each_ref().map(|path| path.to_str().unwrap());
    let mut server = Server::tiny(&["--ssl-certfile", certificate, "--ssl-keyfile", key]);
    std::fs::write(&paths[1], "").unwrap();
    server.signal(Signal::HangUp);
    let said = server.wait_for("TLS files not reloaded, the old ones stay");
    assert!(said.contains("has no private key"), "{said}");
    renew();
    server.signal(Signal::HangUp);
    server.wait_for("TLS certificate and key reloaded");
    assert_eq!(server.stop().0, Some(0));
}

#[test]
fn a_server_that_everybody_reaches_without_a_key_says_so() {
    let warning = "without a key: everybody who reaches it may use, abort and flush it";
    for (args, is_warned) in [
        (&["--host", "0.0.0.0"][..], true),
        (&["--host", "127.0.0.1"], false),
        (&["--host", "0.0.0.0", "--api-key", "k"], false),
    ] {
        let (_, log) = Server::tiny(args).stop();
        assert_eq!(log.contains(warning), is_warned, "{args:?}: {log}");
    }
}
