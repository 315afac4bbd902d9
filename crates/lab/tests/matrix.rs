//! Whole matrices on servers that answer by script.

mod support;

use std::fs;
use std::process::Command;

use lab::finding::Kind;
use lab::run::{Origin, Outcome, Run};
use support::{Bench, LOAD, leftovers, scripted, until};

fn subject(name: &str, more: &str) -> String {
    format!(
        "[[subject]]\nname = \"{name}\"\ncommand = \"{}\"\ninfo = \"/server_info\"\n\
         ready = {{ path = \"/health\", line = \"fired up\", within = \"20s\" }}\n\n",
        scripted(more)
    )
}

fn load(name: &str, more: &str) -> String {
    format!("[[load]]\nname = \"{name}\"\nbench = \"{LOAD} {more}\"\n\n")
}

fn two_by_two(head: &str) -> String {
    let mut plan = format!("name = \"pair\"\n{head}\n");
    plan += &subject("plain", "--gap 1");
    plan += &subject("slow", "--gap 3");
    plan += &load("few", "--num-prompts 8 --seed {repeat}");
    plan += &load("more", "--num-prompts 24 --seed {repeat}");
    plan
}

fn place(run: &Run) -> usize {
    match run.origin {
        Origin::Measured { cell, .. } => cell,
        Origin::Imported { .. } => panic!("it was measured"),
    }
}

#[test]
fn a_matrix_is_run_in_turns_and_its_verdict_is_right() {
    let bench = Bench::new();
    bench.write("plan.toml", &two_by_two("repeats = 3"));
    let (code, out, err) = bench.lab(&["run", "plan.toml", "--language", "zh"]);
    assert_eq!(code, 0, "{out}{err}");
    let mut runs = bench.runs();
    runs.sort_by_key(place);
    let order: Vec<String> = runs
        .iter()
        .map(|run| format!("{}/{}{}", run.subject.name, run.load.name, run.repeat))
        .collect();
    let round = ["plain/few", "slow/few", "plain/more", "slow/more"];
    let expected: Vec<String> = (1..=3)
        .flat_map(|repeat| {
            let mut names: Vec<String> =
                round.iter().map(|name| format!("{name}{repeat}")).collect();
            if repeat == 2 {
                names.reverse();
            }
            names
        })
        .collect();
    assert_eq!(order, expected);
    assert!(out.contains("worse by "), "{out}");
    assert!(out.contains("differs  --gap: 1 | 3"), "{out}");
    assert!(
        runs.iter()
            .all(|run| run.figures.get("completed").is_some_and(|n| n >= 8.0))
    );
    assert!(
        runs.iter()
            .all(|run| run.subject.versions["server"] == "scripted")
    );
    let session = fs::read_dir(bench.path("store/sessions"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let log = fs::read_to_string(session.path().join("log.txt")).unwrap();
    assert_eq!(log.matches("[组合] SERVER=").count(), 12);
    assert_eq!(log.matches("已优雅退出").count(), 12);
    assert_eq!(
        lab::import::runs("log.txt", &log).len(),
        12,
        "our log can be read again"
    );
    let (code, again, _) = bench.lab(&["log", "session=pair*", "--language", "zh"]);
    assert_eq!(code, 0);
    for part in [
        "就绪检测到：",
        "[CLIENT] 运行 ",
        "完成，退出码 0",
        "已优雅退出",
    ] {
        assert_eq!(again.matches(part).count(), 12, "{part} in {again}");
    }
    assert_eq!(leftovers(&bench), [""; 0]);
    let (code, out, _) = bench.lab(&["run", "plan.toml", "--dry-run"]);
    assert_eq!(code, 0);
    assert!(
        out.contains("12 cells, about") && !out.contains("nothing is known"),
        "{out}"
    );
}

#[test]
fn servers_are_kept_for_a_turn_or_to_the_end() {
    for (servers, starts) in [("per-turn", 3), ("kept", 2)] {
        let bench = Bench::new();
        bench.write(
            "plan.toml",
            &two_by_two(&format!("repeats = 2\nservers = \"{servers}\"")),
        );
        let (code, out, err) = bench.lab(&["run", "plan.toml"]);
        assert_eq!(code, 0, "{out}{err}");
        assert_eq!(out.matches("[SERVER] starting").count(), starts, "{out}");
        assert_eq!(out.matches("ended by itself").count(), starts, "{out}");
        assert_eq!(bench.runs().len(), 8);
        assert_eq!(leftovers(&bench), [""; 0]);
    }
}

#[test]
fn bad_servers_are_marked_and_the_matrix_goes_on() {
    let bench = Bench::new();
    let mut plan =
        "name = \"hardship\"\nrepeats = 1\ntime_limit = \"3s\"\nlog_limit = 100000\n".to_owned();
    plan += "[[subject]]\nname = \"missing\"\ncommand = \"no-such-program\"\n";
    plan += "[[subject]]\nname = \"dies\"\ncommand = \"sh -c 'echo out of memory; exit 3'\"\nready = { path = \"/health\" }\n";
    plan += &subject("deaf", "--deaf").replace("20s", "300ms");
    plan += &subject("crashes", "--crash-after 10");
    plan += &subject("parent", "--leave-child");
    plan += &subject("flood", "--flood");
    plan += &subject("stuck", "--first 60000");
    plan += &subject("good", "");
    plan += &load("few", "--num-prompts 16");
    bench.write("plan.toml", &plan);
    let (code, out, err) = bench.lab(&["run", "plan.toml"]);
    assert_eq!(code, 1, "{out}{err}");
    let runs = bench.runs();
    let of = |name: &str| runs.iter().find(|run| run.subject.name == name).unwrap();
    let reason = |name: &str| match &of(name).outcome {
        Outcome::Failed {
            reason,
            exit_code,
            last_lines,
        } => (reason.clone(), *exit_code, last_lines.join("\n")),
        Outcome::Finished => ("finished".to_owned(), None, String::new()),
    };
    assert!(
        reason("missing")
            .0
            .starts_with("cannot start no-such-program: ")
    );
    let (why, code, lines) = reason("dies");
    assert_eq!(
        (why.as_str(), code),
        ("the server ended with code 3 before it was ready", Some(3))
    );
    assert_eq!(lines, "out of memory");
    assert_eq!(reason("deaf").0, "the server was not ready within 0.3 s");
    let (why, code, lines) = reason("crashes");
    assert!(
        why.starts_with("the server ended with code 134 (SIGABRT) after"),
        "{why}"
    );
    assert_eq!(code, Some(134));
    assert!(lines.contains("about to crash"), "{lines}");
    assert_eq!(reason("stuck").0, "the load was not over within 3 s");
    for name in ["parent", "flood", "good"] {
        assert_eq!(reason(name).0, "finished", "{name}");
    }
    let has = |name: &str, kind: Kind| of(name).findings.iter().any(|finding| finding.kind == kind);
    assert!(
        has("parent", Kind::LeftBehind),
        "{:?}",
        of("parent").findings
    );
    assert!(has("flood", Kind::LogCut), "{:?}", of("flood").findings);
    assert!(!has("good", Kind::LeftBehind) && !has("good", Kind::LogCut));
    let log = bench
        .path("store/runs")
        .join(&of("flood").id)
        .join("server.log");
    assert!(fs::metadata(log).unwrap().len() < 101_000);
    assert_eq!(leftovers(&bench), [""; 0]);
}

/// Ends a session in the middle with a signal, and goes on with it.
fn interrupted_by(signal: &str) {
    let bench = Bench::new();
    bench.write("plan.toml", &two_by_two("repeats = 4"));
    let mut running = bench.begin(&["run", "plan.toml"]);
    until("two cells are done", || bench.count() >= 2);
    let process = running.id().to_string();
    let sent = Command::new("kill")
        .args([&format!("-{signal}"), &process])
        .status()
        .expect("kill starts");
    assert!(sent.success());
    let status = running.wait().expect("lab ends");
    if signal == "TERM" {
        assert_eq!(status.code(), Some(130));
        assert_eq!(leftovers(&bench), [""; 0]);
    }
    let before: Vec<String> = bench.runs().into_iter().map(|run| run.id).collect();
    assert!((2..16).contains(&before.len()), "{}", before.len());
    let (code, out, err) = bench.lab(&["run", "plan.toml"]);
    assert_eq!(code, 0, "{out}{err}");
    let left = format!("{} of 16 cells left", 16 - before.len());
    assert!(
        out.contains("going on with pair-") && out.contains(&left),
        "{out}"
    );
    let mut runs = bench.runs();
    assert!(before.iter().all(|id| runs.iter().any(|run| run.id == *id)));
    runs.sort_by_key(place);
    let places: Vec<usize> = runs.iter().map(place).collect();
    assert_eq!(places, (0..16).collect::<Vec<_>>());
    assert_eq!(leftovers(&bench), [""; 0]);
    let (_, out, _) = bench.lab(&["run", "plan.toml", "--dry-run"]);
    assert!(
        out.contains("16 cells, about"),
        "a complete session is not gone on with: {out}"
    );
}

#[test]
fn an_interrupted_session_cleans_up_and_is_gone_on_with() {
    interrupted_by("TERM");
}

#[test]
fn a_killed_session_is_cleaned_up_and_gone_on_with() {
    interrupted_by("KILL");
}

#[test]
fn failed_cells_are_run_again_when_that_is_wanted() {
    let bench = Bench::new();
    let gate = bench.path("open").display().to_string();
    let server = scripted("");
    let mut plan = "name = \"retry\"\nrepeats = 1\n".to_owned();
    let moody = format!(
        "[[subject]]\nname = \"moody\"\ncommand = [\"sh\", \"-c\", \"test -e {gate} || exit 5; exec {server}\"]\n\
         ready = {{ path = \"/health\" }}\n"
    );
    plan += &moody;
    plan += &load("few", "--num-prompts 8");
    plan += &load("more", "--num-prompts 8");
    bench.write("plan.toml", &plan);
    let mut running = bench.begin(&["run", "plan.toml"]);
    assert_eq!(running.wait().unwrap().code(), Some(1));
    assert_eq!(bench.runs().iter().filter(|run| !run.finished()).count(), 2);
    bench.write("open", "");
    let (code, out, err) = bench.lab(&["run", "plan.toml", "--retry-failed"]);
    assert_eq!(code, 0, "{out}{err}");
    let runs = bench.runs();
    assert_eq!(runs.iter().filter(|run| run.finished()).count(), 2, "{out}");
    assert_eq!(runs.len(), 2, "{out}");
}

/// A program that understands as much of a container runtime as the laboratory uses: containers are
/// processes outside of our session, known by a name, and outlive the one that started them.
const RUNTIME: &str = r#"#!/bin/sh
folder=$(dirname "$0")
echo "$@" >>"$folder/asked"
verb=$1; shift
case $verb in
run)
  while [ $# -gt 0 ]; do
    case $1 in
    --rm) ;;
    --name) name=$2; shift ;;
    --env) export "$2"; shift ;;
    --*) shift ;;
    *) break ;;
    esac
    shift
  done
  shift
  setsid env -u PEREGRINE_LAB_MARK "$@" &
  echo $! >"$folder/$name.id"
  wait ;;
stop | rm)
  for name; do
    if [ -e "$folder/$name.id" ]; then
      kill "$(cat "$folder/$name.id")"
      mv "$folder/$name.id" "$folder/$name.gone"
    fi
  done ;;
esac
"#;

#[test]
fn a_server_in_a_container_is_run_stopped_and_not_forgotten() {
    let bench = Bench::new();
    bench.write("runtime", RUNTIME);
    let runtime = bench.path("runtime");
    let made = Command::new("chmod").arg("+x").arg(&runtime).status();
    assert!(made.expect("chmod starts").success());
    let mut plan = "name = \"boxed\"\nrepeats = 2\n".to_owned();
    plan += subject("boxed", "--gap 1").trim_end();
    let container = format!(
        "\nenvironment = {{ SIZE = \"2\" }}\ncontainer = {{ image = \"maker/server:v1\", runtime = \"{}\" }}\n\n",
        runtime.display()
    );
    plan += &container;
    plan += &load("few", "--num-prompts 8 --seed {repeat}");
    bench.write("plan.toml", &plan);
    let ids = |ending: &str| {
        let entries = fs::read_dir(bench.path("")).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.ends_with(ending)).count()
    };
    let mut killed = bench.begin(&["run", "plan.toml"]);
    until("a container runs", || ids(".id") == 1);
    killed.kill().expect("lab can be killed");
    killed.wait().expect("lab ends");
    assert_eq!(ids(".id"), 1, "the container outlives a killed laboratory");
    let (code, out, err) = bench.lab(&["run", "plan.toml"]);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(ids(".id"), 0, "all of them are gone: {out}");
    assert_eq!(ids(".gone"), 2, "{out}");
    let asked = fs::read_to_string(bench.path("asked")).unwrap();
    assert!(asked.contains("rm --force lab-boxed-"), "{asked}");
    assert!(
        asked.contains("--stop-signal SIGTERM --env SIZE=2 maker/server:v1"),
        "{asked}"
    );
    assert!(asked.contains("stop -t 30 lab-boxed-"), "{asked}");
    let runs = bench.runs();
    assert!(
        runs.iter()
            .all(|run| run.subject.versions["image"] == "maker/server:v1")
    );
    assert_eq!(runs.len(), 2);
}

#[test]
fn what_is_noticed_is_told_before_and_after_a_cell() {
    let bench = Bench::new();
    let mut plan = "name = \"told\"\nrepeats = 4\nvariable = \"gap\"\n".to_owned();
    let once = bench.path("warm").display().to_string();
    // paces that a busy machine hardly changes
    let cold = format!("if [ ! -e {once} ]; then touch {once}; cold=60; else cold=10; fi");
    let moody = format!(
        "[[subject]]\nname = \"moody\"\ncommand = [\"sh\", \"-c\", \"{cold}; exec {} --gap $cold\"]\n\
         info = \"/server_info\"\nready = {{ path = \"/health\" }}\n",
        scripted("")
    );
    plan += &moody;
    plan += &subject("plain", "--first 5 --gap 10");
    plan += &load("few", "--num-prompts 8 --seed {repeat}");
    bench.write("plan.toml", &plan);
    let (code, out, err) = bench.lab(&["run", "plan.toml", "--ask", "--dry-run"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("8 cells"), "{out}");
    assert!(
        err.contains("! confounder: moody and plain differ"),
        "{err}"
    );
    assert_eq!(leftovers(&bench), [""; 0]);
    fs::remove_file(bench.path("warm")).expect("it was asked once");
    let (code, out, err) = bench.lab(&["run", "plan.toml"]);
    assert_eq!(code, 0, "{out}{err}");
    let note = out.find("of moody was cold: request_throughput ");
    let before = &out[..note.unwrap_or_else(|| panic!("{out}"))];
    assert!(before.matches("SERVER=moody").count() >= 3, "{out}");
    let runs = bench.runs();
    let cold = runs
        .iter()
        .filter(|run| run.findings.iter().any(|one| one.kind == Kind::ColdRun));
    let cold: Vec<(&str, u32)> = cold
        .map(|run| (run.subject.name.as_str(), run.repeat))
        .collect();
    assert!(cold.contains(&("moody", 1)), "{cold:?}");
    bench.lab(&["report"]);
    let report = fs::read_to_string(bench.path("report.md")).unwrap();
    assert!(report.contains("† without the first run, which was cold"));
    let told = report.matches("of moody was cold: request_throughput");
    assert_eq!(told.count(), 1, "{report}");
}

#[test]
fn another_tools_table_is_read() {
    let bench = Bench::new();
    let table = include_str!("data/notebook.md");
    bench.write("table.txt", table);
    let path = bench.path("table.txt").display().to_string();
    let mut plan = "name = \"theirs\"\nrepeats = 2\n".to_owned();
    plan += &subject("plain", "");
    let theirs =
        format!("[[load]]\nname = \"theirs\"\ncommand = \"sh -c 'echo {{url}}; cat {path}'\"\n");
    plan += &theirs;
    plan += "[[load]]\nname = \"mute\"\ncommand = \"true\"\n";
    plan += "[[load]]\nname = \"broken\"\ncommand = \"sh -c 'echo no such model >&2; exit 4'\"\n";
    bench.write("plan.toml", &plan);
    let (code, out, _) = bench.lab(&["run", "plan.toml"]);
    assert_eq!(code, 1, "{out}");
    for run in bench.runs() {
        match (run.load.name.as_str(), &run.outcome) {
            ("theirs", Outcome::Finished) => {
                assert_eq!(run.figures.get("request_throughput"), Some(4.16));
            }
            ("mute", Outcome::Failed { reason, .. }) => {
                assert_eq!(reason, "the client printed no result");
            }
            (
                "broken",
                Outcome::Failed {
                    reason, last_lines, ..
                },
            ) => {
                assert_eq!(reason, "the client ended with code 4");
                assert_eq!(last_lines, &["no such model"]);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_plan_that_cannot_be_run_is_told_and_nothing_is_done() {
    let bench = Bench::new();
    bench.write("plan.toml", "name = \"x\"\n");
    let (code, _, err) = bench.lab(&["run", "plan.toml"]);
    assert_eq!(code, 2);
    assert!(err.contains("the plan has no subject"), "{err}");
    let wrong = load("wrong", "--backnd vllm") + &load("more", "--num-prompts many");
    bench.write(
        "plan.toml",
        &format!("name = \"x\"\n{}{wrong}", subject("a", "")),
    );
    for more in [&["--dry-run"][..], &[]] {
        let (code, out, err) = bench.lab(&[&["run", "plan.toml"], more].concat());
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        let unknown = "load \"wrong\": unknown option --backnd; did you mean --backend?";
        assert!(err.contains(unknown), "{err}");
        assert!(
            err.contains("load \"more\": argument --num-prompts: invalid int"),
            "{err}"
        );
        assert!(!bench.path("store").exists(), "nothing was begun");
    }
    let (code, _, err) = bench.lab(&["run", "no-such-file"]);
    assert_eq!(code, 1);
    assert!(err.contains("no-such-file"), "{err}");
}
