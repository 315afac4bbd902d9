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
    assert_eq!(gate("noisy", &[]).0, 0);
    assert_eq!(gate("noisy", &["--decide"]).0, 3);
    assert_eq!(
        gate("slower", &["--metric", "mean_ttft_ms"]).0,
        3,
        "nothing was checked"
    );
    assert_eq!(gate("nobody", &[]).0, 2);
    assert_eq!(gate("same", &["--max-regression", "lots"]).0, 2);
    assert_eq!(bench.lab(&["gate", "same"]).0, 2);
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
