use super::*;

fn parse(line: &str) -> Result<Options, ServingError> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    Options::parse(&words)
}

/// The echo that a seed's log shows, for the command line that it must have had.
fn seed_echo(file: &str, start: &str) -> Option<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/seeds");
    let Ok(entries) = std::fs::read_dir(path) else {
        println!("skipped: there is no {path}");
        return None;
    };
    let entry = entries
        .flatten()
        .find(|entry| entry.file_name().to_string_lossy().starts_with(file))?;
    let text = std::fs::read_to_string(entry.path()).unwrap();
    text.lines()
        .find_map(|line| line.strip_prefix(start))
        .map(str::to_owned)
}

#[test]
fn the_echo_of_an_old_release_is_that_of_the_seeds() {
    let options = parse(
        "--backend sglang-oai --dataset-name random --random-input-len 1000 --random-output-len 1000 \
         --random-range-ratio 1 --num-prompts 256 --max-concurrency 32 --reference 0.5.1",
    )
    .unwrap();
    if let Some(echo) = seed_echo("001", "benchmark_args=") {
        assert_eq!(options.echo(), echo);
    }
}

#[test]
fn the_echo_of_the_lmdeploy_client_is_that_of_the_seeds() {
    let mut options = parse(
        "--client lmdeploy --dataset-path /nvme/qa_test_models/datasets/\
         ShareGPT_V3_unfiltered_cleaned_split.json --model-path Qwen/Qwen3-8B --num-prompts 10000",
    )
    .unwrap();
    options.given.set("port", Value::Integer(30000));
    if let Some(echo) = seed_echo("002", "Namespace") {
        assert_eq!(options.echo(), format!("Namespace{echo}"));
    }
}

#[test]
fn prefixes_are_accepted_as_the_seeds_use_them() {
    let options =
        parse("--num-prompt 7 --random-input 5 --random-output=6 --request-rate 20").unwrap();
    assert_eq!(options.count("num-prompts"), Some(7));
    assert_eq!(
        (
            options.count("random-input-len"),
            options.count("random-output-len")
        ),
        (Some(5), Some(6))
    );
    assert!(
        options
            .echo()
            .contains("request_rate=20.0, use_trace_timestamps=False, ")
    );
    let later = parse("--gsp-num 3 --reference 0.5.23");
    assert!(matches!(later, Err(ServingError::Flags(_))));
    let groups = parse("--gsp-num 3").unwrap().count("gsp-num-groups");
    assert_eq!(groups, Some(3), "turns came later");
}

#[test]
fn the_seed_and_the_layout_follow_the_release() {
    let facts = |line: &str| {
        let options = parse(line).unwrap();
        (
            options.given.integer("seed"),
            options.layout,
            options.release.to_string(),
        )
    };
    assert_eq!(facts("--host h"), (Some(1), Layout::C, "0.5.6".to_owned()));
    assert_eq!(
        facts("--reference 0.5.23"),
        (Some(42), Layout::E, "0.5.23".to_owned())
    );
    assert_eq!(
        facts("--layout E"),
        (Some(42), Layout::E, "0.5.23".to_owned())
    );
    assert_eq!(
        facts("--layout A --seed 7"),
        (Some(7), Layout::A, "0.5.3".to_owned())
    );
    assert_eq!(facts("--layout C --reference 0.5.12").1, Layout::C);
}

#[test]
fn objectives_are_echoed_as_pairs() {
    let options = parse("--reference 0.5.23 --goodput ttft:500 tpot:50.5").unwrap();
    assert!(
        options
            .echo()
            .contains("goodput=[('ttft', 500.0), ('tpot', 50.5)], print_requests")
    );
}

#[test]
fn usage_errors_have_their_code_and_words() {
    for (line, words) in [
        ("--backend nosuch", "invalid choice"),
        ("--num-prompts many", "invalid int value"),
        ("--nosuch 1", "--nosuch"),
        ("--goodput speed:3", "KEY in ttft, tpot, e2el"),
        ("--goodput ttft:-3", "finite float > 0"),
        ("--rust-worker-threads 3", "requires --rust-client"),
        ("--gsp-group-distribution zipf", "requires --gsp-zipf-alpha"),
        ("--gsp-zipf-alpha 1.5", "only meaningful with"),
        ("--find-max-rate", "--slo"),
        ("--reference 9.9.9", "not a release"),
        (
            "--profile-prefill-url a --profile-decode-url b",
            "not allowed with",
        ),
        ("loose", "unrecognized arguments"),
        ("--attainment 2", "share between 0 and 1"),
    ] {
        let error = parse(line).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{line}");
        assert!(error.to_string().contains(words), "{line}: {error}");
    }
    assert_eq!(parse("--help").unwrap_err().exit_code(), 0);
}

#[test]
fn new_options_ask_for_strictness() {
    assert!(!parse("--layout E --goodput ttft:5").unwrap().strict);
    assert!(parse("--slo ttft:200,tpot:20").unwrap().strict);
    assert_eq!(
        parse("--slo ttft:200,tpot:20")
            .unwrap()
            .objectives
            .unwrap()
            .to_string(),
        "ttft:200 tpot:20"
    );
}
