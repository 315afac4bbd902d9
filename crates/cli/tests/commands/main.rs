//! The binary as a person meets it: exit codes, messages, and what lands on which stream.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod fetching;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A tiny model that is part of the tests of the models crate.
pub(crate) fn tiny(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../models/tests/goldens")
        .join(name)
}

/// Runs the binary in an empty environment with its home in a folder of its own.
pub(crate) fn peregrine(args: &[&str]) -> (i32, String, String) {
    let home = tempfile::tempdir().unwrap();
    let output = command(args, home.path()).output().unwrap();
    parts(&output)
}

pub(crate) fn command(args: &[&str], home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_peregrine"));
    command
        .args(args)
        .env_clear()
        .env("HOME", home)
        .env("PATH", home);
    command
}

pub(crate) fn parts(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn help_and_version_go_to_standard_output() {
    for args in [&["help", "serve"][..], &["help", "bench", "serving"]] {
        let (code, out, _) = peregrine(args);
        assert_eq!(code, 0);
        let program = args[1..].join(" ");
        assert!(
            out.starts_with(&format!("usage: peregrine {program}")),
            "{out}"
        );
    }
    for args in [&[][..], &["--help"], &["help"]] {
        let (code, out, _) = peregrine(args);
        assert_eq!(code, 0);
        assert!(out.starts_with("usage: peregrine COMMAND"), "{out}");
    }
    assert_eq!(
        peregrine(&["version"]).1,
        format!("peregrine {}\n", env!("CARGO_PKG_VERSION"))
    );
    let (code, out, _) = peregrine(&["inspect", "--help"]);
    assert_eq!(code, 0);
    assert!(
        out.contains("--mem-fraction-static X") && out.contains("--memory-gb X"),
        "{out}"
    );
    let (_, all, _) = peregrine(&["inspect", "--help-all"]);
    assert!(all.contains("--hicache-ratio"));
}

#[test]
fn mistakes_end_with_two_and_say_what_was_meant() {
    let cases: [(&[&str], &str); 10] = [
        (
            &["help", "servv"],
            "unknown command 'servv'; did you mean serve?",
        ),
        (
            &["inspect", "./smollm2.gguf"],
            "no such file or folder: ./smollm2.gguf; did you mean SmolLM2-135M-Instruct?",
        ),
        (
            &["serve", "--tool-call-parser", "dots"],
            "'dots' is not served yet (choose from ",
        ),
        (&["servv"], "unknown command 'servv'; did you mean serve?"),
        (&["inspect", "--prot", "1"], "did you mean --port?"),
        (
            &["inspect", "--reasoning-parser", "deepseek_r1"],
            "did you mean 'deepseek-r1'?",
        ),
        (
            &["inspect", "--config", "/no/such.yaml"],
            "cannot read --config /no/such.yaml",
        ),
        (
            &["inspect", "/no/such/model"],
            "no such file or folder: /no/such/model",
        ),
        (&["generate"], "the following arguments are required: TEXT"),
        (
            &["inspect", "a b"],
            "'a b' is neither a path nor a model name",
        ),
    ];
    for (args, expected) in cases {
        let (code, _, err) = peregrine(args);
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains(expected), "{args:?}: {err}");
    }
}

#[test]
fn inspect_describes_a_model_of_either_format() {
    for (name, weights) in [
        ("llama-tied", "F32 "),
        ("gguf-llama-q4_1/model.gguf", "Q4_1 "),
    ] {
        let (code, out, err) = peregrine(&["inspect", tiny(name).to_str().unwrap()]);
        assert_eq!(code, 0, "{err}");
        for part in [
            "architecture  LlamaForCausalLM",
            weights,
            "KV cache",
            "fits          yes",
        ] {
            assert!(out.contains(part), "{out}");
        }
    }
}

#[test]
fn inspect_tells_what_weights_become_on_the_device() {
    for (name, flags, formats) in [
        (
            "fp8-llama-odd-blocks",
            &[][..],
            "8-bit floats in groups of 32 for ",
        ),
        ("llama-gqa2", &[], "on device     BF16 for "),
        (
            "llama-gqa2",
            &["--quantization", "fp8"],
            "8-bit floats with a scale a row for ",
        ),
    ] {
        let path = tiny(name);
        let words = [
            &["inspect", path.to_str().unwrap(), "--device", "cpu"],
            flags,
        ]
        .concat();
        let (code, out, err) = peregrine(&words);
        assert_eq!(code, 0, "{err}");
        assert!(out.contains(formats), "{out}");
    }
}

#[test]
fn inspect_of_a_description_alone_plans_its_weights() {
    let config = tiny("qwen3-tied").join("config.json");
    let (code, out, err) = peregrine(&["inspect", config.to_str().unwrap(), "--memory-gb", "80"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        out.contains("Qwen3ForCausalLM") && out.contains("80.0 GB free of 80.0 GB"),
        "{out}"
    );
}

#[test]
fn a_model_that_does_not_fit_is_no_and_not_a_mistake() {
    let model = tiny("llama-tied");
    let args = ["inspect", model.to_str().unwrap(), "--memory-gb", "0.00001"];
    let (code, out, err) = peregrine(&args);
    assert_eq!((code, err.as_str()), (1, ""));
    assert!(
        out.contains("fits          no:") && out.contains("--mem-fraction-static"),
        "{out}"
    );
}

#[test]
fn a_busy_port_is_known_before_anything_is_loaded() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let model = tiny("llama-tied");
    let args = [
        "serve",
        model.to_str().unwrap(),
        "--skip-tokenizer-init",
        "--port",
        &port,
    ];
    let (code, _, err) = peregrine(&args);
    assert_eq!(code, 2);
    assert!(
        err.contains(&format!("cannot listen on 127.0.0.1:{port}")),
        "{err}"
    );
    assert!(!err.contains("Load weight begin"), "{err}");
}

#[test]
fn a_model_without_a_tokenizer_is_told_how_to_be_served() {
    let model = tiny("llama-tied");
    let args = ["serve", model.to_str().unwrap(), "--port", "0"];
    let (code, _, err) = peregrine(&args);
    assert_eq!(code, 2, "{err}");
    assert!(
        err.contains("--tokenizer-path") && err.contains("--skip-tokenizer-init"),
        "{err}"
    );
}

#[test]
fn show_config_prints_every_value_with_its_reason_and_serves_nothing() {
    let model = tiny("llama-tied");
    let args = [
        "serve",
        model.to_str().unwrap(),
        "--show-config",
        "--max-running-requests",
        "3",
    ];
    let (code, out, _) = peregrine(&args);
    assert_eq!(code, 0);
    let row = |name: &str| {
        out.lines()
            .find(|line| line.starts_with(name))
            .map(str::to_owned)
    };
    let words = |line: String| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        words(row("max_running_requests").unwrap()),
        ["max_running_requests", "3", "given"]
    );
    assert!(
        row("page_size").is_some() && row("random_seed").is_some(),
        "{out}"
    );
}

#[test]
fn the_real_model_answers_in_the_terminal() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/models/SmolLM2-135M-Instruct.Q4_1.gguf");
    if !model.exists() {
        println!("skipped: there is no {}", model.display());
        return;
    }
    let model = model.to_str().unwrap();
    let raw = [
        "generate",
        "--model-path",
        model,
        "--raw",
        "The capital of France is",
        "--max-new",
        "3",
    ];
    let (code, out, err) = peregrine(&raw);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("Paris"), "{out}");
}

#[test]
fn a_reader_that_goes_away_is_no_mistake_and_a_full_disk_is_one() {
    let home = tempfile::tempdir().unwrap();
    let model = tiny("llama-tied");
    for args in [
        &["inspect", model.to_str().unwrap()][..],
        &["serve", "--help"],
        &["bench"],
        &["bench", "serving", "--help"],
        &["list"],
        &["version"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, _, err) = parts(&command(args, home.path()).stdout(writer).output().unwrap());
        assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
        let full = std::fs::File::options().write(true).open("/dev/full");
        let (code, _, err) = parts(
            &command(args, home.path())
                .stdout(full.unwrap())
                .output()
                .unwrap(),
        );
        assert_eq!(code, 1, "{args:?}");
        assert!(
            err.starts_with("error: cannot write to standard output"),
            "{err}"
        );
    }
}

#[test]
fn an_argument_that_is_no_text_is_named() {
    use std::os::unix::ffi::OsStrExt as _;
    let home = tempfile::tempdir().unwrap();
    let mut serve = command(&["serve"], home.path());
    let output = serve.arg(std::ffi::OsStr::from_bytes(b"a\xff")).output();
    let (code, _, err) = parts(&output.unwrap());
    assert_eq!(code, 2);
    assert!(
        err.contains("the argument 'a\u{fffd}' is not UTF-8"),
        "{err}"
    );
}

#[test]
fn what_flags_alone_say_is_checked_before_weights_are_loaded() {
    let model = tiny("llama-tied");
    let cases: [(&[&str], &str); 5] = [
        (
            &["--stream-interval", "0"],
            "--stream-interval is 0, it must be at least 1",
        ),
        (
            &["--preferred-sampling-params", "{x"],
            "--preferred-sampling-params is not JSON",
        ),
        (&[], "no tokenizer at"),
        (
            &["--tokenizer-path", "/no/such"],
            "no tokenizer at /no/such",
        ),
        (
            &["--chat-template", "/no/such"],
            "--chat-template /no/such is neither a file nor",
        ),
    ];
    for (args, expected) in cases {
        let (code, _, err) =
            peregrine(&[&["serve", model.to_str().unwrap(), "--port", "0"], args].concat());
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains(expected), "{args:?}: {err}");
        assert!(!err.contains("Load weight begin"), "{args:?}: {err}");
    }
}

#[test]
fn flags_that_protect_work_or_the_server_does_not_start() {
    let model = tiny("llama-tied");
    let missing = "/no/such.pem";
    let file = model.join("config.json");
    let file = file.to_str().unwrap();
    let cases: [(&[&str], &str); 11] = [
        (&["--ssl-certfile", file], "give --ssl-keyfile"),
        (&["--ssl-keyfile", file], "give --ssl-certfile"),
        (
            &["--ssl-ca-certs", file],
            "--ssl-ca-certs without a certificate would encrypt nothing",
        ),
        (
            &["--enable-ssl-refresh"],
            "--enable-ssl-refresh without a certificate",
        ),
        (
            &["--ssl-keyfile-password", "x"],
            "--ssl-keyfile-password without a certificate",
        ),
        (
            &[
                "--ssl-certfile",
                file,
                "--ssl-keyfile",
                file,
                "--ssl-keyfile-password",
                "x",
            ],
            "encrypted keys are not supported; decrypt it with `openssl pkey`",
        ),
        (
            &["--ssl-certfile", missing, "--ssl-keyfile", file],
            "cannot read /no/such.pem",
        ),
        (
            &["--ssl-certfile", file, "--ssl-keyfile", file],
            "has no certificate",
        ),
        (&["--api-key", ""], "--api-key is empty"),
        (&["--admin-api-key", ""], "--admin-api-key is empty"),
        (&["--profile-dir", file], "profiles cannot be written to"),
    ];
    for (args, expected) in cases {
        let (code, _, err) =
            peregrine(&[&["serve", model.to_str().unwrap(), "--port", "0"], args].concat());
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains(expected), "{args:?}: {err}");
        assert!(!err.contains("Load weight begin"), "{args:?}: {err}");
    }
}

/// A plan with one of our servers and one load.
fn plan(folder: &Path, subject: &str, bench: &str) -> PathBuf {
    let path = folder.join("plan.toml");
    let text = format!(
        "name = \"x\"\n[[subject]]\nname = \"ours\"\npreset = \"peregrine\"\n{subject}\n\
         [[load]]\nname = \"small\"\nbench = \"--dataset-name random-ids {bench}\"\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_plan_of_the_laboratory_is_checked_whole_before_anything_starts() {
    let home = tempfile::tempdir().unwrap();
    let model = format!("model = \"{}\"", tiny("llama-tied").display());
    let run = |subject: &str, bench: &str| {
        let plan = plan(home.path(), subject, bench);
        let words = ["lab", "run", plan.to_str().unwrap(), "--dry-run"];
        parts(
            &command(&words, home.path())
                .current_dir(home.path())
                .output()
                .unwrap(),
        )
    };
    let fine = format!("{model}\nargs = \"--threads 2 --disable-radix-cache\"");
    let (code, out, err) = run(&fine, "--num-prompts 8");
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("3 cells"), "{out}");
    let misspelt = format!("{model}\nargs = \"--treads 2\"");
    let wrong = [
        (
            misspelt.as_str(),
            "",
            "subject \"ours\": unknown option --treads; did you mean --threads?",
        ),
        (
            "model = \"no/such/model\"",
            "",
            "subject \"ours\": no such file or folder: no/such/model",
        ),
        (
            "model = \"/no/such\"",
            "",
            "subject \"ours\": there is no model at /no/such",
        ),
        (
            &fine,
            "--backnd vllm",
            "load \"small\": unknown option --backnd; did you mean --backend?",
        ),
    ];
    for (subject, bench, expected) in wrong {
        let (code, _, err) = run(subject, bench);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains(expected), "{err}");
    }
}
