//! The commands that look at runs, as a person types them.

mod support;

use std::fmt::Write as _;

use support::Bench;

/// A text with tables of these request rates, a subject after the other.
fn log(arms: &[(&str, &[f64])]) -> String {
    let mut text = String::new();
    for (name, rates) in arms {
        writeln!(text, "[CELL] SERVER={name}  CLIENT=load").expect("a string takes it");
        for rate in *rates {
            writeln!(
                text,
                "============ Serving Benchmark Result ============\n\
                 Successful requests:                     100\n\
                 Request throughput (req/s):              {rate:.2}\n\
                 =================================================="
            )
            .expect("a string takes it");
        }
    }
    text
}

#[test]
fn texts_go_in_once_and_can_be_looked_at() {
    let bench = Bench::new();
    bench.write("notebook.md", include_str!("data/notebook.md"));
    bench.write("matrix.txt", include_str!("data/matrix.txt"));
    let import = ["import", "notebook.md", "matrix.txt"];
    let (code, out, _) = bench.lab(&import);
    assert_eq!(
        (code, out.as_str()),
        (
            0,
            "notebook.md: 5 runs, 5 new\nmatrix.txt: 2 runs, 2 new\n7 runs, 7 new\n"
        )
    );
    let (_, out, _) = bench.lab(&import);
    assert!(out.ends_with("7 runs, 0 new\n"), "{out}");
    let (_, out, _) = bench.lab(&["list", "subject=Tiny*"]);
    assert!(
        out.ends_with("3 runs\n") && out.contains("Tiny-1B FUSE=0"),
        "{out}"
    );
    let id = bench
        .runs()
        .iter()
        .find(|run| run.subject.name == "fast")
        .map(|run| run.id.clone());
    let (code, out, _) = bench.lab(&["show", &id.expect("it was imported")[..6]]);
    assert_eq!(code, 0);
    for part in [
        "matrix.txt:",
        "FAST=1",
        "--disable-radix",
        "request_throughput",
        "1.50  req/s",
        "table.txt",
    ] {
        assert!(out.contains(part), "{part} in {out}");
    }
    let (code, out, _) = bench.lab(&["compare", "plain", "fast"]);
    assert_eq!(code, 0);
    assert!(
        out.contains("the arms differ in more than --attention-backend: FAST is 1 on fast"),
        "{out}"
    );
    assert!(out.contains("--disable-radix is set on fast only"), "{out}");
    let (code, out, _) = bench.lab(&["log", "file=matrix.txt", "--language", "zh"]);
    assert_eq!((code, out.matches("[组合] SERVER=").count()), (0, 2));
    let (code, out, _) = bench.lab(&["report", "--title", "Both"]);
    assert_eq!(
        (code, out.as_str()),
        (0, "report.md: 7 runs\nreport.html: 7 runs\n")
    );
}

#[test]
fn a_gate_ends_as_it_decides() {
    let bench = Bench::new();
    let steady: &[f64] = &[100.0, 100.4, 99.6, 100.2, 99.8];
    let slower = [90.1, 89.8, 90.0, 90.3, 89.9];
    let noisy = [80.0, 120.0, 95.0, 110.0, 90.0];
    let arms = [
        ("base", steady),
        ("same", steady),
        ("slower", &slower),
        ("noisy", &noisy),
        ("once", &noisy[..1]),
    ];
    bench.write("log.txt", &log(&arms));
    bench.lab(&["import", "log.txt"]);
    let gate = |candidate: &str, more: &[&str]| {
        let mut words = vec![
            "gate",
            candidate,
            "--baseline",
            "base",
            "--max-regression",
            "3%",
        ];
        words.extend(more);
        bench.lab(&words)
    };
    let (code, out, _) = gate("same", &[]);
    assert_eq!(code, 0, "{out}");
    assert!(out.ends_with("no regression above 3 %\n"), "{out}");
    let (code, out, _) = gate("slower", &[]);
    assert_eq!(code, 1, "{out}");
    assert!(
        out.contains("REGRESSION: request_throughput of load: worse by 9."),
        "{out}"
    );
    let (code, out, _) = gate("noisy", &[]);
    assert_eq!(code, 3, "what is not known does not pass: {out}");
    assert!(
        out.contains("undecided: a regression above 3 % is neither shown nor excluded; make about"),
        "{out}"
    );
    assert!(
        out.ends_with(" more runs an arm (`repeats` of the plan)\n"),
        "{out}"
    );
    let (code, out, _) = gate("once", &[]);
    assert_eq!(code, 3, "{out}");
    assert!(
        out.ends_with("repeat each load at least 3 times (`repeats` of the plan)\n"),
        "{out}"
    );
    let (code, out, _) = gate("slower", &["--metric", "mean_ttft_ms"]);
    assert_eq!(code, 3, "nothing was checked");
    assert!(
        out.contains("so nothing was checked; run the same loads on both"),
        "{out}"
    );
    for (candidate, code, decision) in [
        ("same", 0, "pass"),
        ("slower", 1, "regression"),
        ("once", 3, "undecided"),
    ] {
        let (found, out, _) = gate(candidate, &["--json"]);
        let answer: serde_json::Value = serde_json::from_str(&out).expect("it is JSON");
        assert_eq!(
            (found, answer["decision"].as_str()),
            (code, Some(decision)),
            "{out}"
        );
        assert_eq!(answer["checks"][0]["metric"], "request_throughput");
        assert_eq!(answer["checks"][0]["analysis"], "unpaired");
        assert!(answer["conclusion"].is_string() && answer["checks"][0]["sentence"].is_string());
    }
    assert_eq!(gate("nobody", &[]).0, 2);
    assert_eq!(gate("same", &["--max-regression", "lots"]).0, 2);
    assert_eq!(bench.lab(&["gate", "same"]).0, 2);
}

#[test]
fn runs_and_comparisons_can_be_had_as_json() {
    let bench = Bench::new();
    let (slow, fast): (&[f64], &[f64]) = (&[100.0, 100.4, 99.6], &[110.0, 110.5, 109.8]);
    bench.write("log.txt", &log(&[("slow", slow), ("fast", fast)]));
    bench.lab(&["import", "log.txt"]);
    let json = |words: &[&str]| -> serde_json::Value {
        let (code, out, err) = bench.lab(words);
        assert_eq!(code, 0, "{err}");
        serde_json::from_str(&out).expect("it is JSON")
    };
    let runs = json(&["list", "subject=slow", "--json"]);
    assert_eq!(runs.as_array().map(Vec::len), Some(3));
    assert_eq!(runs[0]["subject"]["name"], "slow");
    assert_eq!(runs[0]["figures"]["request_throughput"], 100.0);
    let found = json(&["compare", "slow", "fast", "--json"]);
    assert_eq!((&found["a"], &found["b"]), (&"slow".into(), &"fast".into()));
    let answer = &found["loads"][0]["answers"][0];
    assert_eq!(answer["verdict"], "better");
    assert_eq!(answer["unpaired_because"], "imported");
    assert!(answer["interval"]["low"].as_f64() > Some(0.0), "{answer}");
    assert_eq!(found["loads"][0]["findings"][0]["kind"], "confounder");
}

#[test]
fn what_is_not_there_is_answered_with_what_is() {
    let bench = Bench::new();
    bench.write(
        "log.txt",
        &log(&[("plain", &[1.0, 2.0]), ("quick", &[1.0, 2.0])]),
    );
    bench.lab(&["import", "log.txt"]);
    for (words, expected) in [
        (
            &["list", "A"][..],
            "no run fits \"A\"; there are subjects plain | quick",
        ),
        (
            &["compare", "plain", "quik"],
            "no run fits \"quik\"; did you mean \"quick\"?",
        ),
        (
            &["compare", "plain", "quick", "--load", "none"],
            "no run of \"plain\" has load \"none\"; there are load",
        ),
        (
            &["compare", "plain", "quick", "--metric", "ttft"],
            "there is no metric 'ttft'; with that in their names there are ttft_slo_attainment_pct, \
             mean_ttft_ms, median_ttft_ms",
        ),
    ] {
        let (code, _, err) = bench.lab(words);
        assert_eq!(code, 2, "{words:?}: {err}");
        assert!(err.contains(expected), "{words:?}: {err}");
    }
}

#[test]
fn result_lines_of_two_files_are_compared_by_their_files_or_by_names() {
    let bench = Bench::new();
    let lines = |rate: f64| -> String {
        let line = |at: u32| {
            let rate = rate + f64::from(at) / 10.0;
            format!(
                "{{\"backend\": \"vllm\", \"dataset_name\": \"random\", \"num_prompts\": 8, \
                 \"completed\": 8, \"request_throughput\": {rate}, \"mean_ttft_ms\": 20.0}}\n"
            )
        };
        (0..4).map(line).collect()
    };
    bench.write("a.jsonl", &lines(100.0));
    bench.write("b.jsonl", &lines(110.0));
    let (code, _, err) = bench.lab(&["import", "a.jsonl", "b.jsonl"]);
    assert_eq!(code, 0);
    assert!(
        err.contains("a.jsonl: nothing says which server was measured"),
        "{err}"
    );
    let (code, out, err) = bench.lab(&["compare", "file=a.jsonl", "file=b.jsonl"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("better by "), "{out}");
    assert!(
        !out.contains("repeated prompts"),
        "neither seed nor cache was recorded: {out}"
    );
    let (code, out, err) =
        bench.lab(&["import", "b.jsonl", "--subject", "ours", "--load", "burst"]);
    assert_eq!(
        (code, out.as_str(), err.as_str()),
        (0, "b.jsonl: 4 runs, 0 new\n", "")
    );
    let (_, out, _) = bench.lab(&["list", "subject=ours,load=burst"]);
    assert!(out.ends_with("4 runs\n"), "they are named now: {out}");
}

#[test]
fn a_damaged_index_is_mended_and_told() {
    let bench = Bench::new();
    bench.write("log.txt", &log(&[("plain", &[1.0, 2.0])]));
    bench.lab(&["import", "log.txt"]);
    bench.write("store/index.sqlite", "no database");
    let (code, out, err) = bench.lab(&["list"]);
    assert_eq!((code, out.ends_with("2 runs\n")), (0, true), "{out}{err}");
    assert!(
        err.contains("index.sqlite was made again from the runs"),
        "{err}"
    );
    assert_eq!(bench.lab(&["list"]).2, "");
}

#[test]
fn a_regression_in_a_history_is_found() {
    let bench = Bench::new();
    let rates: Vec<f64> = (0..12)
        .map(|at| if at < 7 { 100.0 } else { 92.0 } + f64::from(at % 3))
        .collect();
    bench.write("log.txt", &log(&[("nightly", &rates)]));
    bench.lab(&["import", "log.txt"]);
    let (code, out, _) = bench.lab(&["trend", "request_throughput"]);
    assert_eq!(code, 0);
    assert!(out.contains("load on nightly: WORSE since run"), "{out}");
    assert!(out.contains("100.86 to 93.20 (−7.6 %)"), "{out}");
    bench.lab(&["report"]);
    let page = std::fs::read_to_string(bench.path("report.html")).expect("the page was written");
    assert!(
        page.contains("level changed at run 8"),
        "the change is drawn"
    );
    let (code, _, err) = bench.lab(&["trend", "request_troughput"]);
    assert_eq!(code, 2);
    assert!(err.contains("did you mean request_throughput?"), "{err}");
}

#[test]
fn a_mistyped_store_is_named_and_not_made() {
    let bench = Bench::new();
    for words in [
        &["list"][..],
        &["compare", "a", "b"],
        &["report"],
        &["trend", "request_throughput"],
    ] {
        let (code, _, err) = bench.lab(words);
        assert_eq!(code, 2, "{words:?}: {err}");
        assert!(err.contains("there is no store in"), "{words:?}: {err}");
        assert!(!bench.path("store").exists());
    }
}

#[test]
fn a_run_is_not_held_against_itself() {
    let bench = Bench::new();
    bench.write("log.txt", &log(&[("plain", &[1.0, 2.0])]));
    bench.lab(&["import", "log.txt"]);
    for words in [
        &["compare", "plain", "plain"][..],
        &["gate", "plain", "--baseline", "plain"],
    ] {
        let (code, _, err) = bench.lab(words);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains("is in both arms"), "{err}");
    }
}

#[test]
fn a_text_without_results_is_told() {
    let bench = Bench::new();
    bench.write("letter.txt", "nothing was measured here");
    let (code, _, err) = bench.lab(&["import", "letter.txt"]);
    assert_eq!(code, 1);
    assert!(
        err.contains("letter.txt: no table and no result line"),
        "{err}"
    );
}
