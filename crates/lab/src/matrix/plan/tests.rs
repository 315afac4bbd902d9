use super::*;

const PLAN: &str = r#"
name = "ab"
repeats = 2
servers = "per-turn"
time_limit = "90s"
variable = "attention-backend"

[[subject]]
name = "ours"
preset = "peregrine"
model = "store/tiny"
args = "--attention-backend 'a b'"
environment = { X = "1" }
ready = { within = "2m" }
stop = { signal = "SIGINT", grace = "500ms" }
flush = true

[[subject]]
name = "theirs"
command = ["python3", "server.py", "{port}"]
ready = { line = "up" }
container = { image = "maker/image:1", options = "--gpus all" }

[[load]]
name = "small"
bench = "--num-prompts 8"
expect = "5s"

[[load]]
name = "other"
command = "client --port {port}"
"#;

#[test]
fn a_plan_says_what_is_started_and_what_is_put_on_it() {
    let plan = Plan::parse(PLAN).unwrap();
    assert_eq!((plan.name.as_str(), plan.repeats), ("ab", 2));
    assert_eq!(
        (plan.servers, plan.order),
        (Servers::PerTurn, Order::Interleaved)
    );
    assert_eq!(plan.time_limit, Duration::from_secs(90));
    let ours = &plan.subjects[0];
    assert_eq!(ours.words[0], "{self}");
    assert_eq!(ours.words[8..], ["--attention-backend", "a b"]);
    assert_eq!(ours.ready.path.as_deref(), Some("/health"));
    assert!(ours.ready.line.as_deref().unwrap().contains("fired up"));
    assert_eq!(ours.stop.signal, Signal::Interrupt);
    assert_eq!(ours.stop.grace, Duration::from_millis(500));
    assert_eq!(ours.flush_path.as_deref(), Some("/flush_cache"));
    let theirs = &plan.subjects[1];
    assert_eq!(
        (theirs.ready.path.as_deref(), theirs.ready.line.as_deref()),
        (None, Some("up"))
    );
    assert_eq!(
        theirs.container.as_ref().unwrap().options,
        ["--gpus", "all"]
    );
    let expected = DriverPlan::Bench(vec!["--num-prompts".into(), "8".into()]);
    assert_eq!(plan.loads[0].driver, expected);
    assert_eq!(plan.loads[0].expect, Some(Duration::from_secs(5)));
}

#[test]
fn a_mistake_in_a_plan_is_told() {
    let cases = [
        (
            "repeats = 2",
            "repeats = 0",
            "repeats is 0, it must be between 1 and 1000",
        ),
        (
            "preset = \"peregrine\"",
            "preset = \"x\"",
            "there is no preset \"x\"",
        ),
        (
            "model = \"store/tiny\"",
            "",
            "subject \"ours\" needs a model",
        ),
        (
            "time_limit = \"90s\"",
            "time_limit = \"90\"",
            "\"90\" is no length of time",
        ),
        (
            "time_limit = \"90s\"",
            "time_limit = \"-1s\"",
            "\"-1s\" is no length of time",
        ),
        ("SIGINT", "SIGHUP", "\"HUP\" is no signal to stop with"),
        (
            "name = \"theirs\"",
            "name = \"ours\"",
            "the plan has two subjects named \"ours\"",
        ),
        (
            "bench = \"--num-prompts 8\"",
            "",
            "load \"small\" needs either bench or command",
        ),
        ("repeats = 2", "repeat = 2", "unknown field `repeat`"),
        (
            "servers = \"per-turn\"",
            "servers = \"x\"",
            "unknown variant `x`",
        ),
    ];
    for (from, to, expected) in cases {
        let error = Plan::parse(&PLAN.replace(from, to))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
    let error = Plan::parse("name = \"empty\"").unwrap_err().to_string();
    assert_eq!(error, "the plan has no subject");
}
