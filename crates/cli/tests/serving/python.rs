//! Third-party programs in Python, as they are installed. Their interpreter is made by
//! `.ci/python-env clients`.

use std::process::Command;

use super::process::{Server, existing, workspace};

#[test]
fn the_openai_client_finds_what_it_expects() {
    let key = "a key";
    run("openai_client.py", &["--api-key", key], &[key]);
}

#[test]
fn prometheus_reads_the_metrics() {
    run("metrics_client.py", &["--enable-metrics"], &[]);
}

/// Runs a script of `reference/clients` against a server of the default model.
fn run(script: &str, server_args: &[&str], script_args: &[&str]) {
    let (Some(python), Some(model)) = (
        existing("target/python/clients/bin/python"),
        existing("target/models/SmolLM2-135M-Instruct.Q4_1.gguf"),
    ) else {
        return;
    };
    let server = Server::of(&model, server_args);
    let script = workspace().join("reference/clients").join(script);
    let output = Command::new(python)
        .arg(script)
        .arg(&server.address)
        .args(script_args)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
