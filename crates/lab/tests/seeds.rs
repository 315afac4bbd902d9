//! The five texts this project began with, read whole. They are not in the tree; without them these
//! tests say so and pass.

use std::collections::BTreeMap;
use std::fs;

use lab::compare::{Comparison, Manner, compare};
use lab::finding::Kind;
use lab::import::{ImportedRun, runs};
use lab::metric::Metric;
use lab::run::Evidence;
use lab::verdict::Verdict;
use testkit::material::shared;

const SEEDS: [(&str, usize); 5] = [
    ("000_15b033572f332f66.txt", 17),
    ("001_d6ca1b0ee7fecd17.txt", 4),
    ("002_6333425655433de6.txt", 24),
    ("003_1479160046d3ae63.txt", 0),
    ("004_90cb42bbf813e189.txt", 1),
];

fn seed(number: usize) -> Option<Vec<ImportedRun>> {
    let (file, _) = SEEDS[number];
    let path = shared(&format!("seeds/{file}"))?;
    Some(runs(
        file,
        &fs::read_to_string(path).expect("the text can be read"),
    ))
}

#[test]
fn the_five_texts_hold_forty_six_runs() {
    let mut total = 0;
    for (number, (file, count)) in SEEDS.into_iter().enumerate() {
        let Some(found) = seed(number) else { return };
        assert_eq!(found.len(), count, "{file}");
        total += found.len();
    }
    assert_eq!(total, 46);
}

#[test]
fn every_printed_line_can_be_written_again_from_the_figures() {
    let mut lines = 0;
    for number in 0..SEEDS.len() {
        let Some(found) = seed(number) else { return };
        for found in found {
            for line in found.text.lines().filter(|line| line.contains(": ")) {
                let (label, value) = line.split_once(':').unwrap();
                let value = value.trim();
                let again = match label {
                    "Backend" => found.run.load.word("backend").unwrap().to_owned(),
                    "Traffic request rate" => {
                        let rate = found.run.load.number("request_rate").unwrap();
                        format!("{rate:?}")
                    }
                    "Max request concurrency" => found.run.load.limit().unwrap().to_string(),
                    _ => {
                        let metric = Metric::labelled(label).expect(label);
                        metric.written(found.run.figures.get(metric.name).expect(label))
                    }
                };
                assert_eq!(again, value, "{} in {}", label, found.run.place());
                lines += 1;
            }
        }
    }
    assert_eq!(lines, 17 * 30 + 4 * 23 + 24 * 21 + 30);
}

/// The rows of the tables in which the specification repeats the headline results.
fn specified() -> Option<Vec<Vec<String>>> {
    let text = fs::read_to_string(shared("spec/feature-map.md")?);
    let text = text.expect("the specification can be read");
    let section = text.split("## 5. Headline results").nth(1);
    let section = section.and_then(|text| text.split("### 5.5").next());
    let section = section.expect("the specification quotes the results");
    let rows = section.lines().filter(|line| line.starts_with("| "));
    let cells = rows.map(|row| {
        row.trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().to_owned())
    });
    let rows = cells.map(Iterator::collect::<Vec<_>>);
    Some(
        rows.filter(|row| row.iter().any(|cell| cell.contains(" / ")))
            .collect(),
    )
}

#[test]
fn the_headline_results_are_those_the_specification_quotes() {
    let Some(rows) = specified() else { return };
    let rows: Vec<_> = rows
        .into_iter()
        .filter(|row| !row[3].starts_with("dur"))
        .collect();
    let found: Vec<ImportedRun> = (0..SEEDS.len()).flat_map(|n| seed(n).unwrap()).collect();
    assert_eq!(rows.len(), found.len());
    for (row, found) in rows.iter().zip(&found) {
        let figure = |name: &str| {
            let value = found.run.figures.get(name);
            value.map_or("–".to_owned(), |value| {
                Metric::named(name).unwrap().written(value)
            })
        };
        let joined = |names: &[&str]| names.iter().map(|name| figure(name)).collect::<Vec<_>>();
        let expected = [
            vec![figure("completed")],
            vec![figure("duration")],
            vec![figure("request_throughput")],
            joined(&["input_throughput", "output_throughput"]),
            joined(&["mean_ttft_ms", "median_ttft_ms", "p99_ttft_ms"]),
            joined(&["mean_tpot_ms", "median_tpot_ms", "p99_tpot_ms"]),
            joined(&["mean_itl_ms", "median_itl_ms", "p99_itl_ms"]),
        ];
        let place = found.run.place();
        let cells = &row[row.len() - expected.len()..];
        for (cell, expected) in cells.iter().zip(expected) {
            let expected = match expected.as_slice() {
                [first, ..] if first == "–" => "–".to_owned(),
                _ => expected.join(" / "),
            };
            assert_eq!(*cell, expected, "{place}");
        }
    }
}

#[test]
fn arms_and_repeats_are_recognised() {
    let Some(notebook) = seed(0) else { return };
    let mut arms: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for found in &notebook {
        let run = &found.run;
        let most = arms.entry((&run.subject.name, &run.load.name)).or_default();
        *most = (*most).max(run.repeat);
    }
    let fused = "SGLANG_MOE_FUSE_DOWN_SUM_REDUCE";
    let sharegpt = "sharegpt n=100 rate=20 cap=64";
    let many = "sharegpt n=1000 rate=20 cap=64";
    let dense = "DeepSeek-R1-Distill-Qwen-1.5B";
    let expected: Vec<(String, &str, u32)> = vec![
        (format!("{dense} {fused}=0"), "n=100 rate=inf cap=64", 1),
        (format!("{dense} {fused}=1"), "n=100 rate=inf cap=64", 1),
        (format!("{dense} no {fused}"), sharegpt, 1),
        (format!("OLMoE-1B-7B-0125 {fused}=0"), many, 1),
        (format!("OLMoE-1B-7B-0125 {fused}=0"), sharegpt, 3),
        (format!("OLMoE-1B-7B-0125 {fused}=1"), many, 1),
        (format!("OLMoE-1B-7B-0125 {fused}=1"), sharegpt, 3),
        ("gpt-oss-20b 融合前".to_owned(), sharegpt, 3),
        ("gpt-oss-20b 融合后".to_owned(), sharegpt, 3),
    ];
    let mut expected: Vec<_> = expected
        .iter()
        .map(|(a, b, c)| (a.as_str(), *b, *c))
        .collect();
    expected.sort_unstable();
    let told: Vec<_> = arms.iter().map(|((a, b), c)| (*a, *b, *c)).collect();
    assert_eq!(told, expected);
}

#[test]
fn what_is_wrong_with_them_is_said() {
    let told = |found: &[ImportedRun]| {
        let findings = found.iter().flat_map(|found| &found.run.findings);
        let mut told: BTreeMap<&str, usize> = BTreeMap::new();
        findings.for_each(|finding| *told.entry(finding.kind.title()).or_default() += 1);
        told.into_iter().collect::<Vec<_>>()
    };
    let Some(report) = seed(2) else { return };
    assert_eq!(
        told(&report),
        [
            ("queueing", 24),
            ("text", 2),
            ("token mismatch", 3),
            ("version", 24)
        ]
    );
    let has = |found: &ImportedRun, part: &str| {
        let mut findings = found.run.findings.iter();
        assert!(
            findings.any(|finding| finding.text.contains(part)),
            "{part}"
        );
    };
    has(
        &report[0],
        "the text names SGLang 0.10.1, its commands ran 0.5.1",
    );
    has(
        &report[16],
        "the text says num_prompts 10000, the run used 1000",
    );
    let ascend = seed(4).unwrap();
    has(
        &ascend[0],
        "397 requests at once cannot have been with a limit of 384",
    );
    assert_eq!(ascend[0].run.subject.versions["sglang"], "0.5.6.post2");
    assert_eq!(ascend[0].run.load.number("seed"), Some(1.0));
    let matrix = seed(1).unwrap();
    let client = matrix[0].run.load.command.as_deref();
    assert!(client.is_some_and(|command| command.starts_with("python3 -m sglang.bench_serving ")));
    assert_eq!(
        matrix[0].run.subject.environment["SGLANG_ENABLE_FLASHINFER_GEMM"],
        "1"
    );
}

fn arm(found: &[ImportedRun], name: &str) -> Vec<Evidence> {
    let of_arm = found.iter().filter(|found| found.run.subject.name == name);
    let evidence = of_arm.map(|found| Evidence {
        run: found.run.clone(),
        records: found.records.clone(),
    });
    evidence.collect()
}

fn compared(found: &[ImportedRun], first: &str, second: &str) -> Vec<Comparison> {
    let metrics: Vec<_> = Metric::named("request_throughput").into_iter().collect();
    let (first, second) = (arm(found, first), arm(found, second));
    assert!(!first.is_empty() && !second.is_empty());
    compare(&first, &second, &metrics, &Manner::default())
}

fn told(comparison: &Comparison, kind: Kind) -> Vec<&str> {
    let findings = comparison.findings.iter();
    let of_kind = findings.filter(|finding| finding.kind == kind);
    of_kind.map(|finding| finding.text.as_str()).collect()
}

#[test]
fn fusing_shows_no_difference_on_olmoe_and_the_runs_it_would_take_are_told() {
    let Some(notebook) = seed(0) else { return };
    let name = |on: u8| format!("OLMoE-1B-7B-0125 SGLANG_MOE_FUSE_DOWN_SUM_REDUCE={on}");
    let found = compared(&notebook, &name(0), &name(1));
    assert_eq!(found.len(), 2);
    let [few, many] = [&found[0], &found[1]].map(|comparison| &comparison.answers[0].answer);
    assert_eq!((few.verdict, few.runs), (Verdict::NoDifference, (3, 3)));
    assert_eq!(
        few.sentence(),
        "no difference shown: B is −2.8 % … +7.5 % against A (95 %), p = 0.29, unpaired; about \
         18 more runs an arm would resolve 2 %"
    );
    assert_eq!(few.permutation, Some(0.3));
    assert_eq!(many.verdict, Verdict::CannotTell);
    assert_eq!(told(&found[0], Kind::Confounder), [""; 0]);
    let repeated = told(&found[0], Kind::RepeatedPrompts);
    assert!(
        repeated[1].contains("the first token took 112 ms, later 59 ms"),
        "{repeated:?}"
    );
    assert_eq!(told(&found[0], Kind::Order).len(), 1);
}

#[test]
fn the_cold_runs_of_gpt_oss_are_named() {
    let Some(notebook) = seed(0) else { return };
    let found = compared(&notebook, "gpt-oss-20b 融合前", "gpt-oss-20b 融合后");
    let cold = told(&found[0], Kind::ColdRun);
    assert_eq!(cold.len(), 2);
    assert!(
        cold[0].contains("request_throughput 1.48 against 3.22, 3.24 later"),
        "{cold:?}"
    );
    assert!(
        cold[1].contains("request_throughput 2.29 against 3.25, 3.23 later"),
        "{cold:?}"
    );
    let answer = &found[0].answers[0];
    assert_eq!(
        (answer.answer.verdict, answer.answer.runs),
        (Verdict::NoDifference, (2, 2))
    );
    assert_eq!(
        told(&found[0], Kind::Confounder),
        ["nothing that was recorded differs between the arms, only the remarks 融合前 and 融合后"]
    );
}

#[test]
fn the_second_difference_of_the_matrix_is_named() {
    let Some(matrix) = seed(1) else { return };
    let found = compared(&matrix, "flashinfer", "triton");
    assert_eq!(found.len(), 2);
    for comparison in &found {
        assert_eq!(
            told(comparison, Kind::Confounder),
            [
                "the arms differ in more than --attention-backend: --disable-radix is set on \
              flashinfer only"
            ]
        );
        assert_eq!(comparison.answers[0].answer.verdict, Verdict::CannotTell);
        let idle = told(comparison, Kind::NoEffect);
        assert!(idle[0].starts_with("SGLANG_ENABLE_FLASHINFER_GEMM=1 acts on Blackwell"));
    }
}
