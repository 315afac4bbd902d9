use super::*;
use crate::run::Origin;

const NOTEBOOK: &str = include_str!("../../tests/data/notebook.md");
const MATRIX: &str = include_str!("../../tests/data/matrix.txt");
const RESULT: &str = include_str!("../../tests/data/results.jsonl");

fn figure(found: &ImportedRun, name: &str) -> f64 {
    found.run.figures.get(name).unwrap_or(f64::NAN)
}

fn findings(found: &ImportedRun) -> Vec<String> {
    found.run.findings.iter().map(ToString::to_string).collect()
}

#[test]
fn a_notebook_becomes_runs_with_the_settings_that_stood_before_them() {
    let runs = runs("notebook.md", NOTEBOOK);
    let told: Vec<_> = runs
        .iter()
        .map(|found| {
            let run = &found.run;
            (
                run.subject.name.as_str(),
                run.load.name.as_str(),
                run.repeat,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("Tiny-1B FUSE=1", "sharegpt n=100 rate=20 cap=64", 1),
            ("Tiny-1B FUSE=1", "sharegpt n=100 rate=20 cap=64", 2),
            ("Tiny-1B FUSE=0", "sharegpt n=100 rate=20 cap=64", 1),
            ("Other-7B before", "n=100 rate=inf cap=64", 1),
            ("Other-7B after", "n=100 rate=inf cap=64", 1),
        ]
    );
    assert_eq!(runs[0].run.load.number("seed"), Some(3.0));
    assert_eq!(
        findings(&runs[3]),
        [
            "text: the command before this table asks for rate 20, the table has inf: it is not its \
          command"
        ]
    );
    let Origin::Imported { section, line, .. } = &runs[4].run.origin else {
        panic!("it was imported");
    };
    assert_eq!(section, &["A notebook", "Another model"]);
    let lines: Vec<&str> = NOTEBOOK.lines().collect();
    assert!(Table::begins(lines[line - 1]));
}

#[test]
fn a_matrix_log_names_its_subjects_and_loads() {
    let runs = runs("matrix.txt", MATRIX);
    let told: Vec<_> = runs
        .iter()
        .map(|found| {
            (
                found.run.subject.name.as_str(),
                found.run.load.name.as_str(),
            )
        })
        .collect();
    assert_eq!(told, [("plain", "small"), ("fast", "small")]);
    let subject = &runs[1].run.subject;
    assert_eq!(subject.environment["FAST"], "1");
    assert_eq!(subject.model.as_deref(), Some("tiny"));
    let command = subject.command.as_ref().unwrap();
    assert_eq!(
        command.flag("--attention-backend"),
        Some(&["fast".to_owned()][..])
    );
    assert_eq!(runs[0].run.load.number("num_prompts"), Some(8.0));
    assert!((figure(&runs[0], "request_throughput") - 1.25).abs() < f64::EPSILON);
}

#[test]
fn result_lines_become_runs_with_their_requests() {
    let runs = runs("results.jsonl", RESULT);
    assert_eq!(runs.len(), 2);
    assert!(runs[0].run.load.is_burst());
    assert_eq!(runs[0].run.load.name, "random 16/8 n=2 rate=inf");
    assert_eq!(runs[0].run.subject.versions["server"], "0.5.6");
    assert!((figure(&runs[0], "mean_ttft_ms") - 15.0).abs() < f64::EPSILON);
    assert_eq!(
        runs[0].run.figures.get("mean_itl_ms"),
        None,
        "not a number in the text"
    );
    let records = &runs[0].records;
    assert_eq!(records.len(), 2);
    assert_eq!(records[1].chunks.len(), 3);
    assert!((records[1].finished.seconds() - 0.04).abs() < 1e-9);
    assert_eq!(runs[1].run.load.name, "sharegpt n=100 rate=20 cap=64");
    assert_eq!(
        runs[1].run.subject.name, "nightly",
        "a tag tells servers apart"
    );
    assert_eq!(runs[1].run.note(), Some("nightly"));
    assert!(runs[1].records.is_empty());
}

#[test]
fn runs_have_the_names_they_are_given() {
    let names = Names {
        subject: Some("ours".to_owned()),
        load: Some("burst".to_owned()),
    };
    let found = runs_named("results.jsonl", RESULT, &names);
    let told: Vec<_> = found
        .iter()
        .map(|found| {
            let run = &found.run;
            (
                run.subject.name.as_str(),
                run.load.name.as_str(),
                run.repeat,
            )
        })
        .collect();
    assert_eq!(told, [("ours", "burst", 1), ("ours", "burst", 2)]);
    assert_eq!(found[0].run.id, runs("results.jsonl", RESULT)[0].run.id);
}

#[test]
fn a_result_of_vllms_client_is_read_by_its_own_names() {
    let line = "{\"model_id\": \"org/Tiny-1B\", \"label\": \"v1\", \"backend\": \"vllm\", \
        \"num_prompts\": 8, \"request_rate\": \"inf\", \"completed\": 8, \"request_throughput\": 4.0, \
        \"total_token_throughput\": 99.0, \"mean_e2el_ms\": 12.5}";
    let found = runs("vllm.json", line);
    let run = &found[0].run;
    assert_eq!(run.subject.name, "Tiny-1B v1");
    assert_eq!(run.subject.model.as_deref(), Some("Tiny-1B"));
    assert_eq!(run.load.name, "n=8 rate=inf");
    assert!((figure(&found[0], "total_throughput") - 99.0).abs() < f64::EPSILON);
    assert!((figure(&found[0], "mean_e2e_latency_ms") - 12.5).abs() < f64::EPSILON);
}

#[test]
fn the_same_text_gives_the_same_identifiers() {
    let ids = |file| {
        let found = runs(file, NOTEBOOK).into_iter();
        found.map(|found| found.run.id).collect::<Vec<_>>()
    };
    let mut once = ids("a");
    assert_eq!(once, ids("a"));
    assert_ne!(once, ids("b"));
    once.sort();
    once.dedup();
    assert_eq!(once.len(), 5);
}

#[test]
fn texts_without_results_and_damaged_ones_give_what_they_have() {
    assert!(runs("prose", "nothing\n# here\n").is_empty());
    assert!(runs("json", "{\"request_throughput\": \n{}\n").is_empty());
    let cut = "============ Serving Benchmark Result ============\nSuccessful requests: 3";
    let found = runs("cut", cut);
    assert_eq!(
        findings(&found[0]),
        ["text: the table is cut: its last line is missing"]
    );
    assert_eq!(found[0].run.subject.name, "unnamed");
    let endless = "a \\\n".repeat(10_000);
    assert!(runs("endless", &endless).is_empty());
}

#[test]
fn a_title_and_a_note_that_contradict_the_run_are_named() {
    let text = "# Server v9.9.9\n\n```shell\ndocker run maker/server:v1.2.3 \\\n  sglang.launch_server \
        --model-path m/x\n```\n\nWe used `--dataset-name sharegpt --num-prompts 99` here.\n\n```\n\
        Namespace(dataset_name='sharegpt', num_prompts=9, request_rate=inf)\n\
        ============ Serving Benchmark Result ============\nTraffic request rate: inf\n\
        Successful requests: 9\n==================================================\n```\n";
    let found = runs("report.md", text);
    assert_eq!(
        findings(&found[0]),
        [
            "text: the text says num_prompts 99, the run used 9",
            "version: the text names Server 9.9.9, its commands ran 1.2.3",
        ]
    );
}
