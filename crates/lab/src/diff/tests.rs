use super::*;
use crate::command_line::CommandLine;
use crate::figures::Figures;
use crate::run::{LoadFacts, Origin, Outcome};
use serde_json::json;

fn subject(name: &str, command: &str) -> SubjectFacts {
    let command = CommandLine::server(command).unwrap();
    SubjectFacts {
        name: name.to_owned(),
        model: command.model().map(str::to_owned),
        environment: command.environment.iter().cloned().collect(),
        command: Some(command),
        ..SubjectFacts::default()
    }
}

fn run(subject: SubjectFacts, note: Option<&str>) -> Run {
    Run {
        id: "0".to_owned(),
        subject,
        load: LoadFacts::default(),
        repeat: 1,
        origin: Origin::Imported {
            file: "x".to_owned(),
            line: 1,
            section: Vec::new(),
            note: note.map(str::to_owned),
            layout: "C".to_owned(),
        },
        outcome: Outcome::Finished,
        figures: Figures::default(),
        machine: None,
        findings: Vec::new(),
    }
}

const PLAIN: &str = "X=1 python3 -m sglang.launch_server --model-path a/m --port 1 \
    --attention-backend plain";

fn told(first: (&str, &str), second: (&str, &str), named: Option<&str>) -> Vec<String> {
    let (one, two) = (subject(first.0, first.1), subject(second.0, second.1));
    let found = confounders(&run(one, None), &run(two, None), named);
    found.into_iter().map(|finding| finding.text).collect()
}

#[test]
fn the_second_difference_is_named() {
    let fast = "X=1 python -m sglang.launch_server --model-path b/m --port 2 \
        --attention-backend fast --disable-radix";
    assert_eq!(
        told(("plain", PLAIN), ("fast", fast), None),
        ["the arms differ in more than --attention-backend: --disable-radix is set on fast only"]
    );
    let by_name = told(("a", PLAIN), ("b", fast), Some("attention_backend"));
    assert_eq!(by_name.len(), 1);
    assert!(by_name[0].contains("more than --attention-backend"));
    let unknown = told(("a", PLAIN), ("b", fast), None);
    assert!(
        unknown[0].starts_with("the arms differ in 2 settings"),
        "{unknown:?}"
    );
}

#[test]
fn one_difference_is_the_variable() {
    let other = PLAIN.replace("X=1", "X=0");
    assert_eq!(told(("a", PLAIN), ("b", &other), None), [""; 0]);
    let found = differences(&subject("a", PLAIN), &subject("b", &other));
    assert_eq!(found[0].to_string(), "X: 1 | 0");
    assert_eq!(found[0].sentence("a", "b"), "X is 1 on a and 0 on b");
}

#[test]
fn arms_that_differ_in_their_remarks_alone_are_told() {
    let arm = |note| run(subject("m", PLAIN), Some(note));
    let found = confounders(&arm("before"), &arm("after"), None);
    assert_eq!(
        found[0].text,
        "nothing that was recorded differs between the arms, only the remarks before and after"
    );
}

#[test]
fn what_servers_worked_out_counts_and_where_they_are_does_not() {
    let with = |info| SubjectFacts {
        info: Some(info),
        ..subject("a", PLAIN)
    };
    let one = with(json!({"port": 1, "page_size": 1, "attention_backend": "plain", "a": {}}));
    let two = with(json!({"port": 2, "page_size": 16, "attention_backend": "plain", "b": 1}));
    let found: Vec<String> = differences(&one, &two)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(found, ["page_size: 1 | 16"]);
}

#[test]
fn what_follows_from_the_variable_is_the_variable() {
    let machine = || Some(crate::machine::Machine::default());
    let arm = |name: &str, more: &str, info| Run {
        machine: machine(),
        ..run(
            SubjectFacts {
                info: Some(info),
                ..subject(name, &format!("{PLAIN} {more}"))
            },
            None,
        )
    };
    let told = |one: &Run, two: &Run, named| {
        let found = confounders(one, two, Some(named));
        found
            .into_iter()
            .map(|finding| finding.text)
            .collect::<Vec<_>>()
    };
    let on = json!({"radix_cache": "on", "max_total_tokens": 100});
    let off = json!({"radix_cache": "off", "max_total_tokens": 120});
    let radix = arm("radix", "", on.clone());
    let noradix = arm("noradix", "--disable-radix-cache", off.clone());
    for named in ["disable-radix-cache", "radix-cache"] {
        assert_eq!(told(&radix, &noradix, named), [""; 0]);
    }
    // another machine works out other things
    let elsewhere = Run {
        machine: None,
        ..noradix.clone()
    };
    let found = told(&radix, &elsewhere, "disable-radix-cache");
    assert_eq!(
        found,
        [
            "the arms differ in more than --disable-radix-cache: max_total_tokens is 100 on radix and \
          120 on noradix"
        ]
    );
    // and so does another flag
    let both = arm("noradix", "--disable-radix-cache --tp 2", off);
    let found = told(&radix, &both, "disable-radix-cache");
    assert!(
        found[0].contains("--tp") && found[0].contains("max_total_tokens"),
        "{found:?}"
    );
    assert!(!found[0].contains("radix_cache"), "{found:?}");
    // where the variable is what servers say, nothing was given that it could follow from
    let same = arm(
        "same",
        "",
        json!({"radix_cache": "off", "max_total_tokens": 120}),
    );
    assert_eq!(told(&radix, &same, "radix_cache").len(), 1);
}

#[test]
fn settings_without_effect_are_found_in_what_the_server_says() {
    let mut facts = subject(
        "a",
        &PLAIN.replace("X=1", "SGLANG_ENABLE_FLASHINFER_GEMM=1"),
    );
    facts.info = Some(json!({
        "accepted_without_effect": {"--dtype": "weights decide"},
        "attention_backend": "other",
        "model_path": "elsewhere",
    }));
    let told: Vec<String> = without_effect(&facts)
        .into_iter()
        .map(|found| found.text)
        .collect();
    assert_eq!(
        told,
        [
            "--dtype had no effect: weights decide",
            "--attention-backend plain was asked for, the server uses other",
            "SGLANG_ENABLE_FLASHINFER_GEMM=1 acts on Blackwell GPUs only in the releases that know it",
        ]
    );
}

#[test]
fn settings_of_different_programs_are_not_compared_one_by_one() {
    let ours = "out/peregrine serve --model-path m --threads 2 --disable-radix-cache";
    let theirs = "llama-server --model m --threads 2 --parallel 4";
    assert_eq!(told(("ours", ours), ("theirs", theirs), None), [""; 0]);
    let found = differences(&subject("ours", ours), &subject("theirs", theirs));
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].to_string(),
        "program: out/peregrine serve | llama-server"
    );
    let other_build = ours
        .replace("out", "elsewhere")
        .replace("--threads 2", "--threads 4");
    assert_eq!(
        told(("a", ours), ("b", &other_build), None).len(),
        1,
        "the same program is compared"
    );
    let wrapped = "bash scripts/launch_server_from_source.sh --model-path m --x";
    let plain = "python3 -m sglang.launch_server --model-path m --y";
    assert_eq!(
        differences(&subject("a", wrapped), &subject("b", plain)).len(),
        3
    );
}

#[test]
fn long_values_are_cut() {
    let difference = Difference {
        aspect: Aspect::Resolved,
        name: "template".to_owned(),
        first: Some("a\nb".repeat(100)),
        second: None,
    };
    assert!(difference.to_string().len() < 100);
    assert!(!difference.sentence("x", "y").contains('\n'));
}
