//! What docs/guides/compare-servers.md prints, as a person pastes it.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use support::{Bench, example, leftovers, tokenizer};

/// The plan that the guide prints.
fn plan() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/compare-servers.md");
    let guide = fs::read_to_string(path).expect("the guide is there");
    let lines = guide
        .lines()
        .skip_while(|line| !line.starts_with("    name ="));
    let lines = lines.take_while(|line| line.is_empty() || line.starts_with("    "));
    lines
        .map(|line| line.trim_start_matches("    ").to_owned() + "\n")
        .collect()
}

/// A `python3` that stands in for SGLang: its server answers by script, its client prints a table.
fn stand_in(bench: &Bench) {
    let script = format!(
        "#!/bin/sh\nmodule=$2\nwhile [ $# -gt 0 ]; do [ \"$1\" = --port ] && port=$2; shift; done\n\
         case $module in\n\
         sglang.launch_server) exec {} --port \"$port\" --model {} --first 0 --gap 0;;\n\
         sglang.bench_serving) cat <<END\n\
         ============ Serving Benchmark Result ============\n\
         Successful requests:                     1000\n\
         Request throughput (req/s):              12.50\n\
         ==================================================\n\
         END\n;;\n\
         *) exit 9;;\nesac\n",
        example("fake_subject"),
        tokenizer()
    );
    fs::create_dir(bench.path("bin")).expect("there is room for a folder");
    bench.write("bin/python3", &script);
    fs::set_permissions(bench.path("bin/python3"), fs::Permissions::from_mode(0o755))
        .expect("a file may be run");
}

#[test]
fn the_plan_of_the_guide_runs_as_it_is_printed() {
    let bench = Bench::new();
    bench.write("plan.toml", &plan());
    stand_in(&bench);
    let (code, out, err) = bench.lab(&["run", "plan.toml", "--dry-run"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("20 cells, "), "{out}");
    let (code, out, err) = bench.lab_with("bin", &["run", "plan.toml"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("20 cells done\n"), "{out}");
    assert!(out.contains(", paired by round"), "{out}");
    assert_eq!(leftovers(&bench), [""; 0]);
}
