//! A person's interrupt: what is done is kept, told, and can be gone on with.
#![expect(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod support;

use serde_json::{Value, json};
use std::process::Command;
use support::bench::{Bench, SHARE_GPT, answer};
use support::interruptible;

/// A server at which the person loses patience when the fourth generation is asked for.
fn impatient() -> Bench {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    Bench::with(move |request| {
        if request.path == "/generate"
            && asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 3
        {
            let process = std::process::id().to_string();
            Command::new("kill")
                .args(["-INT", &process])
                .status()
                .unwrap();
        }
        answer(request)
    })
}

fn run(bench: &Bench, line: &str) -> support::Printed {
    bench.run_by(line, interruptible)
}

fn trials(result: &Value) -> usize {
    result["max_rate_trials"].as_array().unwrap().len()
}

/// One test, for an interrupt is one to everything that runs in this process.
#[test]
fn an_interrupt_keeps_what_is_done_in_every_manner() {
    // Once somebody listens, an interrupt never ends this process.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let interrupt = tokio::signal::unix::SignalKind::interrupt();
    let _listening = runtime.block_on(async { tokio::signal::unix::signal(interrupt).unwrap() });

    let bench = impatient();
    let printed = run(
        &bench,
        &format!("{SHARE_GPT} --warmup-requests 0 --max-concurrency 1"),
    );
    assert_eq!(printed.code, 130, "{}", printed.err);
    assert!(
        printed
            .err
            .contains("interrupted: 3 of 6 requests are done"),
        "{}",
        printed.err
    );
    assert_eq!(bench.result()["completed"], json!(3));

    let bench = impatient();
    let line = format!("{SHARE_GPT} --strict --warmup-requests 0 --max-concurrency 1");
    let printed = run(&bench, &line);
    assert_eq!(printed.code, 130, "{}", printed.err);
    let records = bench.path("result.records.jsonl");
    let hint =
        format!("interrupted: 3 requests are done, 2 were not sent; go on with --resume {records}");
    assert!(printed.err.contains(&hint), "{}", printed.err);
    assert_eq!(bench.result()["interrupted"], json!(true));
    let printed = run(&bench, &format!("{line} --resume {records}"));
    assert_eq!(printed.code, 0, "{}", printed.err);
    let result = bench.result();
    let counts = (&result["completed"], &result["resumed_records"]);
    assert_eq!(counts, (&json!(6), &json!(3)));

    let bench = impatient();
    let printed = run(
        &bench,
        "--client lmdeploy --dataset-name sharegpt --dataset-path {data}conversations.json --num-prompts 4 \
         --sharegpt-output-len 9 --disable-warmup --multi --request-rate-range 200,400,200",
    );
    assert_eq!(printed.code, 130, "{}", printed.err);
    assert!(
        printed.err.contains("of 4 requests are done"),
        "{}",
        printed.err
    );
    let rows = std::fs::read_to_string(bench.path("result.jsonl")).unwrap();
    assert_eq!(
        rows.lines().count(),
        2,
        "the other rates are not run: {rows}"
    );

    let bench = impatient();
    let printed = run(
        &bench,
        "--dataset-name random-ids --random-input-len 4 --random-output-len 2 --num-prompts 1 --max-concurrency 1 \
         --find-max-rate --slo e2el:60000 --request-rate 20 --warmup-requests 0 --duration 0.06",
    );
    assert_eq!(printed.code, 130, "{}{}", printed.out, printed.err);
    let result = bench.result();
    assert_eq!(result["max_rate_interrupted"], json!(true));
    let told = format!("interrupted after {} rates", trials(&result));
    assert!(printed.err.contains(&told), "{}", printed.err);
}
