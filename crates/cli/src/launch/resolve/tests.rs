//! Resolution by table.

mod formats;
mod priorities;

use std::time::Duration;

use models::{ModelSpec, Quantisation, spec_from_config};
use ops::DeviceInfo;
use tensor::DType;

use super::*;
use crate::args::ServerCommand;
use crate::launch::memory::tables;
use crate::launch::{Folding, estimate_scratch};

const SERVE: ServerCommand = ServerCommand {
    program: "peregrine serve",
    about: "",
    positionals: &[],
    own: &[],
};

/// SmolLM2-135M: 23,040 bytes of keys and values a token in half precision.
fn spec() -> ModelSpec {
    let config = r#"{"architectures": ["LlamaForCausalLM"], "hidden_size": 576, "intermediate_size": 1536,
        "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49152,
        "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 100000, "eos_token_id": 2,
        "tie_word_embeddings": true, "hidden_act": "silu"}"#;
    spec_from_config(config.as_bytes()).unwrap()
}

fn device(kind: &'static str, total: usize, free: usize) -> DeviceInfo {
    DeviceInfo {
        kind,
        name: "test".into(),
        memory_total: total,
        memory_free: free,
        units: 2,
        features: String::new(),
        activation: DType::F32,
        kv: DType::F16,
        float8: true,
    }
}

/// What folding the weights would take: nothing on a CPU.
fn folded_bytes(device: &DeviceInfo) -> usize {
    if device.kind == "cpu" { 0 } else { 80 << 20 }
}

fn launch_on(device: &DeviceInfo, line: &str) -> Result<Launch, ConfigError> {
    launch_of(&spec(), device, line)
}

fn launch_of(spec: &ModelSpec, device: &DeviceInfo, line: &str) -> Result<Launch, ConfigError> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let parsed = SERVE.parse(&words).unwrap().parsed;
    let scratch = |config: &ExecutorConfig| estimate_scratch(spec, config);
    let here = Circumstances {
        spec,
        stored_wide: true,
        weights: 100 << 20,
        folding: Folding::Possible(folded_bytes(device)),
        device,
        scratch: &scratch,
        entropy: 7,
    };
    resolve(&parsed, &here)
}

fn launch(line: &str) -> Result<Launch, ConfigError> {
    launch_on(&device("cpu", 16 << 30, 8 << 30), line)
}

fn value(launch: &Launch, name: &str) -> String {
    let found = launch.values.iter().find(|value| value.name == name);
    found
        .unwrap_or_else(|| panic!("{name} is resolved"))
        .value
        .clone()
}

/// What is said to have no effect.
fn told(launch: &Launch) -> String {
    let notices = launch.notices.iter();
    notices.map(ToString::to_string).collect()
}

#[test]
fn every_setting_has_a_default_on_a_cpu() {
    let launch = launch("").unwrap();
    for (name, expected) in [
        ("context_len", "8192"),
        ("page_size", "16"),
        ("chunked_prefill_size", "512"),
        ("max_prefill_tokens", "16384"),
        ("max_running_requests", "64"),
        ("max_total_tokens", "65536"),
        ("max_queued_requests", "unlimited"),
        ("schedule_policy", "fcfs"),
        ("device", "cpu"),
        ("dtype", "float32"),
        ("mem_fraction_static", "0.8"),
        ("random_seed", "7"),
        ("watchdog_timeout", "0.0"),
    ] {
        assert_eq!(value(&launch, name), expected, "{name}");
    }
    assert!(
        launch.values.iter().all(|value| !value.why.is_empty()),
        "{:#?}",
        launch.values
    );
    assert_eq!(launch.engine.end_tokens, [2]);
    assert_eq!(
        (launch.executor.pages, launch.executor.max_rows),
        (4096, 64)
    );
    assert_eq!(launch.executor.max_sequence_tokens, 8191);
}

#[test]
fn a_step_has_five_minutes_on_a_gpu_unless_it_is_given_other_time_or_for_ever() {
    let [cpu, gpu] = ["cpu", "cuda"].map(|kind| device(kind, 80 << 30, 79 << 30));
    let half = Some(Duration::from_millis(500));
    for (line, on_cpu, on_gpu) in [
        ("", None, Some(Duration::from_mins(5))),
        ("--watchdog-timeout 0.5", half, half),
        ("--watchdog-timeout 0", None, None),
    ] {
        for (device, expected) in [(&cpu, on_cpu), (&gpu, on_gpu)] {
            let launch = launch_on(device, line).unwrap();
            assert_eq!(launch.engine.watchdog, expected, "{} {line}", device.kind);
        }
    }
}

#[test]
fn what_inputs_and_results_pass_through_is_counted_as_work_space() {
    let launch = launch("--max-running-requests 256").unwrap();
    let (spec, executor) = (spec(), &launch.executor);
    let others = estimate_scratch(&spec, executor) + tables(&spec, executor);
    // three readbacks with a million scores of prompts and 1538 numbers of each row
    let readbacks = 3 * 4 * ((1 << 20) + 256 * 1538);
    let counted = launch.budget.work - others;
    assert!(
        (readbacks..readbacks + (1 << 20)).contains(&counted),
        "{counted}"
    );
}

#[test]
fn given_values_are_taken_and_named_so() {
    let cases = [
        ("--context-length 4k", "context_len", "4000"),
        ("--page-size 1", "page_size", "1"),
        ("--chunked-prefill-size -1", "chunked_prefill_size", "-1"),
        ("--chunked-prefill-size 256", "chunked_prefill_size", "256"),
        ("--max-running-requests 3", "max_running_requests", "3"),
        ("--max-queued-requests 5", "max_queued_requests", "5"),
        ("--max-total-tokens 1000", "max_total_tokens", "992"),
        ("--schedule-policy lpm", "schedule_policy", "lpm"),
        (
            "--enable-priority-scheduling",
            "schedule_policy",
            "priority",
        ),
        ("--disable-overlap-schedule", "run_ahead", "1"),
        ("--disable-radix-cache", "radix_cache", "off"),
        ("--random-seed 42", "random_seed", "42"),
        ("--watchdog-timeout 7.5", "watchdog_timeout", "7.5"),
        ("--decode-log-interval 1", "decode_log_interval", "1"),
    ];
    for (line, name, expected) in cases {
        assert_eq!(value(&launch(line).unwrap(), name), expected, "{line}");
    }
}

#[test]
fn impossible_values_are_refused_with_the_limit() {
    let cases = [
        (
            "--enable-priority-scheduling --priority-scheduling-preemption-threshold -1",
            "--priority-scheduling-preemption-threshold is -1, it must be between 0 and 4294967295",
        ),
        (
            "--context-length 8193",
            "--context-length is 8193, the model was trained for 8192",
        ),
        (
            "--context-length 0",
            "--context-length is 0, it must be at least 2",
        ),
        (
            "--context-length 1",
            "--context-length is 1, it must be at least 2",
        ),
        (
            "--max-total-tokens 1",
            "--max-total-tokens is 1, it must be at least 2",
        ),
        (
            "--page-size 0",
            "--page-size is 0, it must be between 1 and 1024",
        ),
        (
            "--page-size 99999",
            "--page-size is 99999, it must be between 1 and 1024",
        ),
        (
            "--chunked-prefill-size 0",
            "--chunked-prefill-size is 0, it must be -1 or a number of tokens up to 16777216",
        ),
        (
            "--max-running-requests -2",
            "--max-running-requests is -2, it must be between 1 and 65536",
        ),
        (
            "--mem-fraction-static 1",
            "--mem-fraction-static is 1, it must be above 0 and below 1",
        ),
        (
            "--mem-fraction-static nan",
            "--mem-fraction-static is NaN, it must be above 0 and below 1",
        ),
        (
            "--tp 4",
            "--tp-size 4 needs 4 devices, this version drives one; leave it at 1",
        ),
        (
            "--load-format pt",
            "--load-format pt is not in this version; choose from auto, safetensors, gguf, dummy",
        ),
    ];
    for (line, expected) in cases {
        assert_eq!(launch(line).unwrap_err().to_string(), expected, "{line}");
    }
}

#[test]
fn what_cannot_be_honoured_in_full_is_said() {
    let policy = launch("--schedule-policy random").unwrap();
    assert_eq!(
        policy.notices[0].to_string(),
        "--schedule-policy accepted, no effect: the policy random is not in this version, fcfs is used"
    );
    let types = launch("--kv-cache-dtype fp8_e5m2").unwrap();
    let line = "--kv-cache-dtype accepted, no effect: keys and values are F16 on this device";
    assert_eq!(types.notices[0].to_string(), line);
    let gpu = DeviceInfo {
        activation: DType::BF16,
        ..device("cuda", 80 << 30, 79 << 30)
    };
    for (line, used, notices) in [
        ("", "bfloat16", 0),
        ("--dtype bfloat16", "bfloat16", 0),
        ("--dtype half", "bfloat16", 1),
        ("--dtype float32", "bfloat16", 1),
    ] {
        let launch = launch_on(&gpu, line).unwrap();
        assert_eq!(value(&launch, "dtype"), used, "{line}");
        assert_eq!(launch.notices.len(), notices, "{line}");
    }
    let floats = launch("--dtype float16").unwrap();
    assert_eq!(
        floats.notices[0].to_string(),
        "--dtype accepted, no effect: activations are float32 on this device and sums float32; float16 is mapped to that"
    );
    assert_eq!(value(&launch("--dtype float").unwrap(), "dtype"), "float32");
    let packed = launch("--quantization awq").unwrap();
    assert_eq!(
        packed.notices[0].to_string(),
        "--quantization accepted, no effect: weights keep the format they are stored in"
    );
    let small = device("cpu", 2 << 30, 1 << 30);
    let tokens = launch_on(&small, "--max-total-tokens 1M").unwrap();
    assert_eq!((tokens.notices.len(), tokens.limited.len()), (0, 1));
    let line = &tokens.limited[0];
    let expected =
        "--max-total-tokens is followed in part: 1000000 tokens need 23.0 GB, which is 22.";
    assert!(
        line.starts_with(expected) && line.ends_with("fit and are used"),
        "{line}"
    );
    assert!(value(&tokens, "max_total_tokens").parse::<u32>().unwrap() < 40_000);
}

#[test]
fn a_gpu_is_divided_as_users_of_sglang_expect() {
    let cases = [
        (16, "2048", "0.772"),
        (24, "2048", "0.847"),
        (40, "4096", "0.833"),
        (80, "8192", "0.836"),
        (141, "8192", "0.907"),
        (180, "16384", "0.858"),
    ];
    for (gibibytes, chunk, fraction) in cases {
        let gpu = device("cuda", gibibytes << 30, (gibibytes << 30) - (1 << 29));
        let launch = launch_on(&gpu, "").unwrap();
        assert_eq!(
            value(&launch, "chunked_prefill_size"),
            chunk,
            "{gibibytes} GiB"
        );
        assert_eq!(
            value(&launch, "mem_fraction_static"),
            fraction,
            "{gibibytes} GiB"
        );
        assert_eq!(
            value(&launch, "max_running_requests"),
            "4096",
            "{gibibytes} GiB"
        );
    }
}

#[test]
fn a_gpu_captures_steps_and_a_cpu_says_that_it_cannot() {
    let gpu = device("cuda", 80 << 30, 79 << 30);
    let cases = [
        ("--cuda-graph-max-bs 24", "[1, 2, 4, 8, 12, 16, 24]"),
        ("--cuda-graph-bs 8 2 8", "[2, 8]"),
        ("--max-running-requests 3", "[1, 2]"),
        ("--disable-cuda-graph", "none"),
    ];
    for (line, expected) in cases {
        assert_eq!(
            value(&launch_on(&gpu, line).unwrap(), "cuda_graph_bs"),
            expected,
            "{line}"
        );
    }
    let default = launch_on(&gpu, "").unwrap().graphs;
    assert_eq!((default.len(), default.last()), (36, Some(&256)));
    assert!(launch_on(&gpu, "--cuda-graph-bs 0").is_err());
    for (line, expected) in [
        ("--cuda-graph-max-bs 24", "lower --cuda-graph-max-bs"),
        (
            "--cuda-graph-max-bs 24 --cuda-graph-bs 8 2",
            "name fewer row counts in --cuda-graph-bs",
        ),
    ] {
        assert_eq!(launch_on(&gpu, line).unwrap().fewer_graphs, expected);
    }
    let cpu = launch("--disable-cuda-graph").unwrap();
    assert!(cpu.graphs.is_empty());
    let line = "--disable-cuda-graph accepted, no effect: a CPU has no graphs to capture";
    assert_eq!(cpu.notices[0].to_string(), line);
}

#[test]
fn row_counts_that_are_not_captured_are_told() {
    let gpu = device("cuda", 80 << 30, 79 << 30);
    let above = "no step has more than 3 rows (--max-running-requests)";
    let cases = [
        (
            "--cuda-graph-bs 2 8",
            "[2, 8]",
            String::new(),
            String::new(),
        ),
        (
            "--max-running-requests 3",
            "[1, 2]",
            String::new(),
            String::new(),
        ),
        (
            "--cuda-graph-bs 2 8 --cuda-graph-max-bs 4",
            "[2, 8]",
            "--cuda-graph-max-bs accepted, no effect: --cuda-graph-bs names every row count".into(),
            String::new(),
        ),
        (
            "--cuda-graph-bs 8 2 16 --max-running-requests 3",
            "[2]",
            String::new(),
            format!("--cuda-graph-bs is followed in part: {above}, so [8, 16] is left out"),
        ),
        (
            "--cuda-graph-bs 8 --disable-cuda-graph",
            "none",
            "--cuda-graph-bs accepted, no effect: --disable-cuda-graph captures nothing".into(),
            String::new(),
        ),
        (
            "--cuda-graph-bs 8 16 --max-running-requests 3",
            "[]",
            format!("--cuda-graph-bs accepted, no effect: nothing is captured: {above}"),
            String::new(),
        ),
        (
            "--cuda-graph-max-bs 8 --max-running-requests 3",
            "[1, 2]",
            String::new(),
            format!("--cuda-graph-max-bs is followed in part: {above}"),
        ),
    ];
    for (line, rows, notice, limited) in cases {
        let launch = launch_on(&gpu, line).unwrap();
        assert_eq!(value(&launch, "cuda_graph_bs"), rows, "{line}");
        assert_eq!(told(&launch), notice, "{line}");
        assert_eq!(launch.limited.concat(), limited, "{line}");
    }
}

#[test]
fn flags_of_the_cpu_change_nothing_on_a_gpu_and_that_is_told() {
    let gpu = device("cuda", 80 << 30, 79 << 30);
    for line in ["--threads 3", "--cpu-activations exact"] {
        let flag = line.split(' ').next().unwrap();
        assert!(told(&launch_on(&gpu, line).unwrap()).starts_with(flag));
        assert_eq!(told(&launch(line).unwrap()), "");
    }
}

#[test]
fn a_model_larger_than_memory_is_refused() {
    let tiny = device("cpu", 1 << 28, 1 << 27);
    assert!(matches!(launch_on(&tiny, ""), Err(ConfigError::NoRoom(_))));
    for gibibytes in [1, 2, 3] {
        let small = device("cuda", gibibytes << 30, gibibytes << 30);
        let refused = launch_on(&small, "").expect_err("steps leave nothing");
        let said = refused.to_string();
        assert!(said.starts_with("the model needs 104.9 MB"), "{said}");
        assert!(said.contains("raise --mem-fraction-static to "), "{said}");
    }
}

#[test]
fn no_argument_value_makes_resolution_panic() {
    for flag in [
        "context-length",
        "page-size",
        "chunked-prefill-size",
        "max-prefill-tokens",
        "max-running-requests",
        "max-queued-requests",
        "max-total-tokens",
        "random-seed",
        "decode-log-interval",
    ] {
        for number in [
            "-9223372036854775808",
            "-1",
            "0",
            "1",
            "4294967295",
            "9223372036854775807",
        ] {
            let _ = launch(&format!("--{flag}={number}"));
        }
    }
}

#[test]
fn weights_are_folded_where_the_cache_hardly_misses_the_room() {
    let (gpu, small) = (
        device("cuda", 80 << 30, 78 << 30),
        device("cuda", 4 << 30, 2 << 30),
    );
    for (device, line, expected) in [
        (&gpu, "", "on"),
        (&gpu, "--fold-weights off", "off"),
        (&small, "--mem-fraction-static 0.6", "off"),
        (&small, "--mem-fraction-static 0.6 --fold-weights on", "on"),
    ] {
        let launch = launch_on(device, line).unwrap();
        assert_eq!(value(&launch, "fold_weights"), expected, "{line}");
        let folded = if expected == "on" { 80 << 20 } else { 0 };
        assert_eq!(launch.budget.folded, folded, "{line}");
        assert!(launch.notices.is_empty(), "{:?}", launch.notices);
    }
    let all = launch_on(&gpu, "--fold-weights off").unwrap().budget;
    let rest = launch_on(&gpu, "").unwrap().budget;
    let taken = (all.tokens - rest.tokens) * all.token;
    assert!((80 << 20..81 << 20).contains(&taken), "{taken}");
}

#[test]
fn weights_that_cannot_be_folded_are_told() {
    let cpu = launch("--fold-weights on").unwrap();
    assert!(told(&cpu).contains("--fold-weights"), "{}", told(&cpu));
    let small = device("cuda", 4 << 30, 2 << 30);
    let full = launch_on(&small, "--mem-fraction-static 0.545 --fold-weights on").unwrap();
    assert_eq!(value(&full, "fold_weights"), "off");
    assert!(told(&full).contains("83.9 MB"), "{}", told(&full));
}
