//! Every strict figure against a server that shares no code with this one.

mod server;
mod table;

use super::support::{Printed, data_text, serve};
use serde_json::Value;
use server::{Mock, Seen};
use table::{Room, Truth, close};

/// Figures of a quiet machine, and of one whose client has a thousand streams to read.
const QUIET: Room = Room {
    middle: 2.0,
    tail: 6.0,
};
const CROWDED: Room = Room {
    middle: 8.0,
    tail: 25.0,
};

/// Requests of a first session that are on record.
const KEPT: usize = 35;

/// Runs the benchmark strictly on the mock: what it printed, and its result line.
fn run(mock: &Mock, line: &str) -> (Printed, Value) {
    let (result, records) = (mock.path("result.jsonl"), mock.path("records.jsonl"));
    let tokenizer = data_text("tokenizer");
    let mut words = vec![
        "--base-url",
        &mock.base,
        "--tokenizer",
        &tokenizer,
        "--output-file",
    ];
    words.extend([
        &result,
        "--strict",
        "--disable-tqdm",
        "--warmup-requests",
        "0",
    ]);
    words.extend(["--dataset-name", "random-ids", "--random-input-len", "10"]);
    words.extend(["--random-output-len", "8"]);
    if !line.contains("--resume") {
        words.extend(["--records", records.as_str()]);
    }
    words.extend(line.split_whitespace());
    let printed = serve(&words);
    let text = std::fs::read_to_string(&result).unwrap_or_else(|_| panic!("{}", printed.err));
    let result = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    (printed, result)
}

/// Runs one session and holds all its figures against the log.
fn check(behaviour: &str, line: &str, room: Room) -> Option<(Value, Vec<Seen>)> {
    let mock = Mock::start(behaviour)?;
    let (_, result) = run(&mock, line);
    let log = mock.log();
    let truth = Truth {
        sessions: vec![&log],
        due: None,
    };
    truth.check(&result, room);
    Some((result, log))
}

/// Ends per second while all places of a closed loop were taken and each had ended once.
fn middle_rate(log: &[Seen], places: usize) -> f64 {
    let mut ends: Vec<f64> = log.iter().map(|seen| seen.end).collect();
    ends.sort_by(f64::total_cmp);
    let (from, to) = (ends[places - 1], log[log.len() - 1].read);
    let ended = ends.iter().filter(|end| from < **end && **end <= to);
    ended.count() as f64 / (to - from)
}

/// When each request was due, if the n-th was due `after(n)` seconds after the first: a request
/// is never read before it is due, so the one that was read soonest dates the first.
fn due(log: &[Seen], after: impl Fn(f64) -> f64) -> Vec<f64> {
    let places = || log.iter().enumerate();
    let starts = places().map(|(place, seen)| seen.read - after(place as f64));
    let start = starts.fold(f64::INFINITY, f64::min);
    places()
        .map(|(place, _)| start + after(place as f64))
        .collect()
}

#[test]
fn one_stream_is_measured_as_it_was() {
    let line = "--num-prompts 6 --max-concurrency 1";
    check("ttft=60,13,40 gap=10,3,7 tokens=10,1,4", line, QUIET);
}

#[test]
fn a_hundred_streams_are_measured_as_they_were() {
    let line = "--num-prompts 800 --max-concurrency 100";
    let behaviour = "ttft=80,37,200 gap=8,11,12 tokens=10,3,6 together=2";
    let Some((result, log)) = check(behaviour, line, CROWDED) else {
        return;
    };
    let steady = &result["steady_state"];
    close(steady, "request_throughput", middle_rate(&log, 100), 0.05);
    assert!(steady["seconds"].as_f64().unwrap() > 0.5 * result["duration"].as_f64().unwrap());
}

#[test]
fn a_thousand_streams_are_measured_as_they_were() {
    let Some(mock) = Mock::start("ttft=1100,37,300 gap=60,11,60 tokens=8,3,5") else {
        return;
    };
    // All are under way before the first ends, and none waits for the server to take it in.
    let line = "--num-prompts 1000 --request-rate 1000 --pace constant";
    let (_, result) = run(&mock, line);
    let log = mock.log();
    let truth = Truth {
        sessions: vec![&log],
        due: Some(due(&log, |place| place / 1000.0)),
    };
    truth.check(&result, CROWDED);
    assert_eq!(result["max_concurrent_requests"], 1000);
}

#[test]
fn a_stall_is_in_every_figure_and_in_the_steady_state() {
    let line = "--num-prompts 80 --max-concurrency 4";
    let Some((result, log)) = check("ttft=40 gap=8 tokens=6 stall=500,1000", line, QUIET) else {
        return;
    };
    assert!(
        result["max_itl_ms"]
            .as_f64()
            .unwrap()
            .max(result["max_ttft_ms"].as_f64().unwrap())
            > 900.0
    );
    let steady = &result["steady_state"];
    close(steady, "request_throughput", middle_rate(&log, 4), 0.06);
    assert!(steady["seconds"].as_f64().unwrap() > 2.0, "{steady}");
}

#[test]
fn errors_are_counted_and_are_no_part_of_times() {
    let line = "--num-prompts 100 --max-concurrency 10";
    let Some((result, log)) = check("ttft=40,7,30 gap=6 tokens=8,1,3 trouble=5", line, QUIET)
    else {
        return;
    };
    let failures = result["failures"].as_object().unwrap();
    let count = |how: &str| log.iter().filter(|seen| seen.how == how).count() as u64;
    for (name, how) in [
        ("HTTP 500 Internal Server Error", "status"),
        ("error in the stream", "in_stream"),
        ("connection closed early", "cut"),
    ] {
        assert_eq!(
            failures[name].as_u64(),
            Some(count(how)),
            "{name}: {failures:?}"
        );
    }
}

#[test]
fn tool_calls_are_measured_as_they_were() {
    let line = "--backend sglang-oai-chat --num-prompts 60 --max-concurrency 10";
    check("ttft=50,7,40 gap=10,3,6 tokens=10,1,3", line, QUIET);
}

#[test]
fn a_resumed_run_has_the_times_of_both_its_sessions() {
    let Some(mock) = Mock::start("ttft=40,7,30 gap=6,1,5 tokens=8,1,3") else {
        return;
    };
    let line = "--num-prompts 60 --max-concurrency 4";
    run(&mock, line);
    // As a kill leaves it: the first requests that ended, and a torn line.
    let records = mock.path("records.jsonl");
    let text = std::fs::read_to_string(&records).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let torn = &lines[KEPT + 1][..lines[KEPT + 1].len() / 2];
    std::fs::write(&records, format!("{}\n{torn}", lines[..=KEPT].join("\n"))).unwrap();
    let (printed, result) = run(&mock, &format!("{line} --resume {records}"));
    let log = mock.log();
    let (first, second) = log.split_at(60);
    let mut first = first.to_vec();
    first.sort_by(|a, b| a.end.total_cmp(&b.end));
    first.truncate(KEPT);
    first.sort_by(|a, b| a.read.total_cmp(&b.read));
    let truth = Truth {
        sessions: vec![&first, second],
        due: None,
    };
    truth.check(&result, QUIET);
    assert_eq!(result["resumed_records"], KEPT as u64);
    assert!(
        printed
            .err
            .contains("35 of 60 requests are of an earlier session"),
        "{}",
        printed.err
    );
    for key in [
        "concurrency",
        "max_concurrent_requests",
        "achieved_request_rate",
        "steady_state",
    ] {
        assert!(result[key].is_null(), "{key} is {}", result[key]);
        assert!(
            result["refused"][key].as_str().unwrap().contains("resumed"),
            "{key}"
        );
    }
    // What a session adds to the file is on the same time line: a third one finds it so.
    let (_, again) = run(&mock, &format!("{line} --resume {records}"));
    close(
        &again,
        "duration",
        result["duration"].as_f64().unwrap(),
        1e-9,
    );
    close(
        &again,
        "mean_ttft_ms",
        result["mean_ttft_ms"].as_f64().unwrap(),
        1e-9,
    );
}

#[test]
fn a_ramp_is_measured_from_its_schedule() {
    let Some(mock) = Mock::start("ttft=30 gap=5 tokens=6") else {
        return;
    };
    let (_, result) = run(&mock, "--num-prompts 90 --ramp 20:70:2 --pace constant");
    let log = mock.log();
    // 20 t + 12.5 t² requests are due by second t.
    let truth = Truth {
        sessions: vec![&log],
        due: Some(due(&log, |place| {
            ((400.0 + 50.0 * place).sqrt() - 20.0) / 25.0
        })),
    };
    truth.check(&result, QUIET);
    assert!(result["steady_state"].is_null());
    assert!(
        result["refused"]["steady_state"]
            .as_str()
            .unwrap()
            .contains("on a schedule")
    );
}

#[test]
fn a_rate_beyond_the_server_shows_its_queue_and_what_it_serves() {
    let Some(mock) = Mock::start("ttft=60 gap=10 tokens=5") else {
        return;
    };
    // Four places of 100 ms serve 40 a second.
    let line = "--num-prompts 100 --request-rate 80 --pace constant --max-concurrency 4";
    let (printed, result) = run(&mock, line);
    let log = mock.log();
    let truth = Truth {
        sessions: vec![&log],
        due: Some(due(&log, |place| place / 80.0)),
    };
    truth.check(&result, QUIET);
    let served = (log.len() - 1) as f64 / (log[log.len() - 1].end - log[0].end);
    close(&result, "served_request_rate", served, 0.06);
    assert!(
        printed
            .err
            .contains("requests were due at 80.00 req/s and served at"),
        "{}",
        printed.err
    );
    assert!(
        printed.err.contains("are shorter than asked"),
        "{}",
        printed.err
    );
}
