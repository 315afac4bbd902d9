//! The table as a whole.

use super::entry::ByDevice;
use super::*;

const SERVE: ServerCommand = ServerCommand {
    program: "peregrine serve",
    about: "",
    positionals: &[],
    own: &[],
};

fn parse(line: &str) -> Result<ServerArgs, String> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    SERVE.parse(&words).map_err(|error| error.to_string())
}

fn notices(line: &str) -> Vec<String> {
    let args = parse(line).unwrap();
    args.notes
        .into_iter()
        .chain(args.notices.iter().map(Notice::to_string))
        .collect()
}

#[test]
fn every_flag_says_what_it_does_or_why_it_does_nothing() {
    for entry in entries() {
        match entry.effect {
            Effect::Honoured => assert!(entry.flag.help.ends_with('.'), "{}", entry.flag.name),
            Effect::Idle(reason) | Effect::Refused(reason) => {
                assert!(
                    reason.len() > 15 && !reason.ends_with('.'),
                    "{}",
                    entry.flag.name
                );
            }
            Effect::ByDevice(ByDevice { on_cpu, on_gpu }) => {
                assert!(on_cpu.is_some() || on_gpu.is_some());
                assert_eq!(
                    entry.flag.help.ends_with('.'),
                    entry.effect.is_honoured(),
                    "{}",
                    entry.flag.name
                );
                for reason in [on_cpu, on_gpu].into_iter().flatten() {
                    assert!(reason.len() > 15 && !reason.ends_with('.'), "{reason}");
                }
            }
            Effect::Retired(_) => {}
        }
    }
    assert!(entries().count() > 570);
}

#[test]
fn flags_that_must_not_be_ignored_are_refused_with_a_way_out() {
    for (line, way) in [
        ("--is-embedding", "leave the flag out"),
        ("--enable-lora", "merge the adapter"),
        ("--lora-paths a=b", "merge the adapter"),
        (
            "--json-model-override-args {\"a\":1}",
            "change config.json in a copy",
        ),
    ] {
        let error = parse(&format!("--model-path /m {line}")).expect_err(line);
        let flag = line.split(' ').next().unwrap();
        let expected = format!("{flag} cannot be followed: ");
        assert!(
            error.starts_with(&expected) && error.contains(way),
            "{error}"
        );
    }
    parse("--model-path /m --json-model-override-args {}").expect("nothing is asked for");
}

#[test]
fn the_command_lines_of_the_seeds_are_understood() {
    let lines = [
        "--model-path /m --host 0.0.0.0 --port 30000 --tp 8 --trust-remote",
        "--model /m --tp-size 1 --dp 2 --enable-dp-attention --disable-radix",
        "--model-path /m --speculative-algo EAGLE3 --speculative-draft /d --speculative-num-steps 3 \
         --speculative-eagle-topk 1 --speculative-num-draft-tokens 4 --dtype float16",
        "--model-path /m --attention-backend fa3 --moe-runner-backend triton_kernel \
         --moe-a2a-backend deepep --enable-two-batch-overlap --tbo-token-distribution-threshold 0",
        "--model-path /m --cuda-graph-bs 1 2 4 8 --cuda-graph-max-bs 8 --mem-fraction-static 0.9",
        "--model-path /m --max-total-tokens 16Ki --offload-mode cpu --cpu-offload-gb 4",
        "--model-path /m --reasoning-parser deepseek-r1 --chunked-prefill-size -1 --stream-output",
    ];
    for line in lines {
        parse(line).unwrap();
    }
    let args = parse("--tp 8 --speculative-draft /d").unwrap().parsed;
    assert_eq!(args.integer("tp-size"), Some(8));
    assert_eq!(args.text("speculative-draft-model-path"), Some("/d"));
}

#[test]
fn flags_without_effect_are_listed_with_the_reason_only_when_given() {
    assert_eq!(notices("--port 1 --enable-metrics"), [""; 0]);
    assert_eq!(
        notices("--trust-remote-code --gc-warning 0.5"),
        [
            "--trust-remote-code accepted, no effect: code that comes with a model is never run",
            "--gc-warning-threshold-secs accepted, no effect: there is no garbage collector to watch",
        ]
    );
}

#[test]
fn flags_that_change_nothing_on_this_device_alone_are_listed_there() {
    let on = |on_cpu: bool, line: &str| {
        let args = parse(line).unwrap();
        assert_eq!(args.notices, [], "{line}");
        let told = notices_on_device(&args.parsed, on_cpu);
        told.iter().map(Notice::to_string).collect::<Vec<_>>()
    };
    let of_cpu = "accepted, no effect: it is about the CPU device, and a GPU is used";
    let of_gpu = "accepted, no effect: a CPU has no graphs to capture";
    for (line, on_cpu, on_gpu) in [
        ("--port 1", "", ""),
        ("--threads 2", "", of_cpu),
        ("--cpu-activations exact", "", of_cpu),
        ("--cuda-graph-max-bs 8", of_gpu, ""),
        ("--cuda-graph-bs 1 2", of_gpu, ""),
        ("--disable-cuda-graph", of_gpu, ""),
        (
            "--enable-deterministic-inference",
            "results never depend on what else is in the batch",
            "a GPU has no such mode",
        ),
    ] {
        for (is_cpu, expected) in [(true, on_cpu), (false, on_gpu)] {
            let found = on(is_cpu, line);
            assert_eq!(found.is_empty(), expected.is_empty(), "{line}: {found:?}");
            let flag = line.split(' ').next().unwrap();
            let whole = |told: &String| told.starts_with(flag) && told.contains(expected);
            assert!(found.iter().all(whole), "{line}: {found:?}");
        }
    }
}

#[test]
fn how_weights_are_read_is_told_for_both_devices() {
    let told = notices("--weight-loader-disable-mmap");
    assert_eq!(told.len(), 1);
    assert!(
        told[0].contains("mapped on a CPU, piece by piece on a GPU"),
        "{told:?}"
    );
}

#[test]
fn old_spellings_are_noted_and_translated() {
    let note = "NOTE: --enable-deepep-moe is deprecated. Please set `--moe-a2a-backend` to 'deepep' instead.";
    assert_eq!(notices("--enable-deepep-moe"), [note]);
    let args = parse("--enable-deepep-moe --enable-ep-moe --tp 4").unwrap();
    assert_eq!(args.parsed.text("moe-a2a-backend"), Some("deepep"));
    assert_eq!(args.parsed.integer("ep-size"), Some(4));
    assert_eq!(
        args.notes[0],
        "NOTE: --enable-ep-moe is deprecated. Please set `--ep-size` to the same value as `--tp-size` instead."
    );
    let explicit = parse("--enable-deepep-moe --moe-a2a-backend none").unwrap();
    assert_eq!(explicit.parsed.text("moe-a2a-backend"), Some("none"));
}

#[test]
fn a_misspelt_value_or_name_suggests_the_nearest() {
    let error = parse("--reasoning-parser deepseek_r1").unwrap_err();
    assert!(error.contains("did you mean 'deepseek-r1'?"), "{error}");
    let error = parse("--schedule-policy fcsf").unwrap_err();
    assert!(error.contains("did you mean 'fcfs'?"), "{error}");
    let error = parse("--mem-fraction 0.9 --max-runing-requests 2").unwrap_err();
    assert!(
        error.contains("did you mean --max-running-requests?"),
        "{error}"
    );
}

#[test]
fn the_config_file_yields_to_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.yaml");
    fs::write(&path, "port: 1\nhost: h\nenable-metrics: true\n").unwrap();
    let line = format!("--config {} --port 2", path.display());
    let args = parse(&line).unwrap().parsed;
    assert_eq!(
        (args.integer("port"), args.text("host")),
        (Some(2), Some("h"))
    );
    assert!(args.switch("enable-metrics"));
    fs::write(&path, "a: b: c\n  d: e").unwrap();
    assert!(parse(&line).is_err());
    assert!(
        parse("--config no-such-file")
            .unwrap_err()
            .contains("no-such-file")
    );
}

#[test]
fn the_server_info_has_every_value_under_its_name_in_sglang() {
    let info = as_json(&parse("--tp 2 --cuda-graph-bs 1 2").unwrap().parsed);
    for (key, value) in [
        ("tp_size", json!(2)),
        ("cuda_graph_bs", json!([1, 2])),
        ("model_path", json!(null)),
        ("disable_radix_cache", json!(false)),
        ("schedule_policy", json!("fcfs")),
        ("watchdog_timeout", json!(300.0)),
    ] {
        assert_eq!(info[key], value, "{key}");
    }
}

#[test]
fn help_lists_honoured_flags_and_all_of_them_on_request() {
    let (short, long) = (SERVE.help(false), SERVE.help(true));
    assert!(short.contains("--mem-fraction-static X") && !short.contains("--hicache-ratio"));
    assert!(long.contains("--hicache-ratio") && long.len() > 3 * short.len());
}
