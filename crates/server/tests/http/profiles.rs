//! Profiles: where they may be written, and that they are.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use hyper::Method;
use serde_json::{Value, json};
use server::{ProfileFolder, Stopped};

use crate::harness::{Setup, TestServer, answer, start};

/// A server that may write to this folder.
async fn start_with(folder: &Path) -> TestServer {
    let folder = ProfileFolder::open(folder).expect("the folder");
    Setup::with(|setup| setup.server.profiles = Some(folder))
        .start()
        .await
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let found = std::fs::read_dir(folder).expect("the folder").flatten();
    found.map(|entry| entry.path()).collect()
}

/// The trace in a folder, once it is there.
async fn saved(folder: &Path) -> PathBuf {
    loop {
        let is_trace = |path: &PathBuf| path.extension().is_some_and(|end| end == "json");
        if let Some(path) = files(folder).into_iter().find(is_trace) {
            return path;
        }
        tokio::task::yield_now().await;
    }
}

fn steps(trace: &Path) -> usize {
    let trace = std::fs::read(trace).expect("readable");
    let trace: Value = serde_json::from_slice(&trace).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    events
        .iter()
        .filter(|event| event["name"] == "step")
        .count()
}

fn request() -> Value {
    json!({"input_ids": [1, 2, 3], "sampling_params": {"max_new_tokens": 5}})
}

#[tokio::test]
async fn a_profile_is_a_trace_of_the_steps_between_start_and_stop() {
    let home = tempfile::tempdir().expect("a folder");
    let server = start_with(home.path()).await;
    let folder = home.path().join("a");
    let body = json!({"output_dir": folder, "profile_prefix": "../mine", "num_steps": null});
    let started = server.client().post("/start_profile", &body).await;
    assert_eq!(
        (started.status, started.body.as_str()),
        (200, "Start profiling.\n")
    );
    assert_eq!(
        server.client().post("/generate", &request()).await.status,
        200
    );
    assert_eq!(server.client().get("/stop_profile").await.status, 200);
    let trace = saved(&folder).await;
    let name = trace.file_name().expect("a name").to_string_lossy();
    assert!(
        name.starts_with("mine-") && name.ends_with(".trace.json"),
        "{name}"
    );
    let mode = trace.metadata().expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(steps(&trace) >= 5);
}

#[tokio::test]
async fn a_second_profile_and_a_stop_without_one_are_refused_with_the_reason() {
    let home = tempfile::tempdir().expect("a folder");
    let server = start_with(home.path()).await;
    let client = server.client();
    let none =
        json!({"error": {"message": "Profiling is not in progress. Call /start_profile first."}});
    let running = json!({"error": {"message": "Profiling is already in progress. Call /stop_profile first."}});
    let stop = client.get("/stop_profile").await;
    assert_eq!((stop.status, stop.json()), (400, none.clone()));
    for name in ["a", "b"] {
        let body = json!({"output_dir": name});
        assert_eq!(client.post("/start_profile", &body).await.status, 200);
        let more = json!({"output_dir": format!("not-{name}")});
        let again = client.post("/start_profile", &more).await;
        assert_eq!((again.status, again.json()), (400, running.clone()));
        assert_eq!(client.get("/stop_profile").await.status, 200);
        let stop = client.get("/stop_profile").await;
        assert_eq!((stop.status, stop.json()), (400, none.clone()));
        saved(&home.path().join(name)).await;
    }
    assert_eq!(
        files(home.path()).len(),
        2,
        "a refused profile makes no folder"
    );
    // one that ended by itself is not told to be stopped
    let body = json!({"output_dir": "c", "num_steps": 1});
    while client.post("/start_profile", &body).await.status != 200 {
        tokio::task::yield_now().await;
    }
    assert_eq!(client.post("/generate", &request()).await.status, 200);
    let stop = client.get("/stop_profile").await;
    assert_eq!((stop.status, stop.json()), (400, none));
    saved(&home.path().join("c")).await;
}

#[tokio::test]
async fn nothing_is_written_outside_the_folder_of_profiles() {
    let home = tempfile::tempdir().expect("a folder");
    let (mine, others) = (home.path().join("mine"), home.path().join("others"));
    let server = start_with(&mine).await;
    std::fs::create_dir(&others).expect("a folder");
    symlink(&others, mine.join("link")).expect("a link");
    let client = server.client();
    for (folder, reason) in [
        (
            others.to_str().expect("text"),
            "is not in the server's folder",
        ),
        ("../others", "is not in the server's folder"),
        ("a/../../others", "is not in the server's folder"),
        ("link", "no profile can be written there"),
        ("link/a", "no profile can be written there"),
    ] {
        let refused = client
            .post("/start_profile", &json!({"output_dir": folder}))
            .await;
        assert_eq!(refused.status, 400, "{folder}");
        assert!(refused.body.contains(reason), "{}", refused.body);
    }
    assert!(files(&others).is_empty());
    assert_eq!(files(&mine).len(), 1);
    // a refused one leaves no recording
    while client.post("/start_profile", &json!({})).await.status != 200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_server_without_a_folder_writes_no_profiles() {
    let server = start().await;
    let refused = server.client().post("/start_profile", &json!({})).await;
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains("--profile-dir"), "{}", refused.body);
}

#[tokio::test]
async fn what_pages_may_send_without_asking_changes_nothing() {
    let home = tempfile::tempdir().expect("a folder");
    let server = start_with(home.path()).await;
    for path in ["/start_profile", "/abort_request"] {
        for kind in [
            None,
            Some("text/plain"),
            Some("application/x-www-form-urlencoded"),
        ] {
            let body = r#"{"abort_all": true}"#;
            let sent = server.client().send(Method::POST, path, kind, body).await;
            let refused = answer(sent).await;
            assert_eq!(refused.status, 400, "{path} {kind:?}");
            assert!(
                refused.body.contains("application/json"),
                "{}",
                refused.body
            );
        }
    }
    assert!(files(home.path()).is_empty());
}

#[tokio::test]
async fn a_profile_of_no_number_of_steps_is_refused() {
    let server = start().await;
    let body = json!({"num_steps": "x"});
    let refused = server.client().post("/start_profile", &body).await;
    assert_eq!(refused.status, 400);
    let message = "num_steps: expected a number of steps, got a string";
    assert_eq!(refused.json()["message"], message);
}

#[tokio::test]
async fn a_server_that_stops_keeps_the_profile_that_it_records() {
    let home = tempfile::tempdir().expect("a folder");
    let server = start_with(home.path()).await;
    assert_eq!(
        server
            .client()
            .post("/start_profile", &json!({}))
            .await
            .status,
        200
    );
    assert_eq!(
        server.client().post("/generate", &request()).await.status,
        200
    );
    assert_eq!(server.stop().await.unwrap(), Stopped::Drained);
    let left = files(home.path());
    let [trace] = &left[..] else {
        panic!("{left:?}");
    };
    assert!(steps(trace) >= 5);
}
