use super::*;
use crate::import::runs;
use crate::verdict::Verdict;

const NOTEBOOK: &str = include_str!("../../tests/data/notebook.md");

fn arm(text: &str, name: &str) -> Vec<Evidence> {
    let found = runs("x", text).into_iter();
    let found = found.filter(|found| found.run.subject.name == name);
    let evidence = found.map(|found| Evidence {
        run: found.run,
        records: found.records,
    });
    evidence.collect()
}

fn throughput() -> Vec<&'static Metric> {
    Metric::named("request_throughput").into_iter().collect()
}

#[test]
fn arms_are_compared_load_by_load() {
    let (one, two) = (
        arm(NOTEBOOK, "Tiny-1B FUSE=1"),
        arm(NOTEBOOK, "Tiny-1B FUSE=0"),
    );
    let found = compare(&one, &two, &throughput(), &Manner::default());
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].load, "sharegpt n=100 rate=20 cap=64");
    let answer = &found[0].answers[0];
    assert_eq!(answer.answer.verdict, Verdict::CannotTell);
    assert_eq!(answer.runs.0.len(), 2);
    assert_eq!(found[0].differences.len(), 1);
    let told: Vec<String> = found[0].findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "order: all runs of Tiny-1B FUSE=1 were made before those of Tiny-1B FUSE=0: a drift of \
             the machine would look the same",
            "repeated prompts: repeats on Tiny-1B FUSE=1 send the same prompts (seed 3) to a server \
             with its prefix cache on",
        ]
    );
}

fn table(rate: f64) -> String {
    format!(
        "============ Serving Benchmark Result ============\n\
         Successful requests:                     100\n\
         Request throughput (req/s):              {rate:.2}\n\
         ==================================================\n"
    )
}

fn notebook(arms: [&[f64]; 2]) -> String {
    let arms = arms.iter().zip(["a", "b"]).map(|(values, name)| {
        let tables: String = values.iter().map(|value| table(*value)).collect();
        format!("[CELL] SERVER={name}  CLIENT=load\n{tables}")
    });
    arms.collect()
}

#[test]
fn a_cold_first_run_is_named_and_left_out_unless_it_is_wanted() {
    let text = notebook([&[1.48, 3.22, 3.24], &[2.29, 3.25, 3.23]]);
    let (one, two) = (arm(&text, "a"), arm(&text, "b"));
    let found = compare(&one, &two, &throughput(), &Manner::default());
    let answer = &found[0].answers[0];
    assert_eq!(answer.answer.runs, (2, 2));
    assert_eq!(
        answer.left_out,
        [one[0].run.id.clone(), two[0].run.id.clone()]
    );
    assert_eq!(answer.answer.verdict, Verdict::NoDifference);
    let cold: Vec<&Finding> = found[0]
        .findings
        .iter()
        .filter(|found| found.kind == Kind::ColdRun)
        .collect();
    assert_eq!(cold.len(), 2);
    assert!(
        cold[0].text.ends_with(
            "was cold: request_throughput 1.48 against 3.22, 3.24 later; the first run of both arms \
             is left out"
        ),
        "{}",
        cold[0].text
    );
    let kept = Manner {
        keep_cold: true,
        ..Manner::default()
    };
    let found = compare(&one, &two, &throughput(), &kept);
    assert_eq!(found[0].answers[0].answer.runs, (3, 3));
}

#[test]
fn arms_without_a_common_load_or_figure_have_nothing_to_compare() {
    let text = notebook([&[1.0, 1.0], &[]]);
    let (one, two) = (arm(&text, "a"), arm(&text, "b"));
    assert!(compare(&one, &two, &throughput(), &Manner::default()).is_empty());
    let latency: Vec<_> = Metric::named("mean_ttft_ms").into_iter().collect();
    let found = compare(&one, &one, &latency, &Manner::default());
    assert!(found[0].answers.is_empty());
}
