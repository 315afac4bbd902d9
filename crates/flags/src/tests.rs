//! The rules by table.

use crate::{
    Command, FlagError, FlagSpec, Group, Positional, Preset, Takes, Value, nearest, parse,
};

const PARSERS: &[&str] = &["deepseek-r1", "deepseek-v3", "qwen3", "kimi"];

const TABLE: &[FlagSpec] = &[
    FlagSpec::text("backend", "Protocol.").default(Preset::Text("sglang")),
    FlagSpec::text("base-url", "Address."),
    FlagSpec::integer("port", "Port."),
    FlagSpec::integer("num-prompts", "How many.").default(Preset::Integer(1000)),
    FlagSpec::float("request-rate", "Per second.").default(Preset::Float(f64::INFINITY)),
    FlagSpec::switch("disable-tqdm", "No bar."),
    FlagSpec::switch("disable-stream", "No stream."),
    FlagSpec::words("profile-activities", "What.").default(Preset::Words(&["CPU", "GPU"])),
    FlagSpec::integer("cuda-graph-bs", "Sizes.").takes(Takes::Some),
    FlagSpec::integer("tensor-parallel-size", "Shards.")
        .alias(&["tp-size", "tp"])
        .stored_as("tp_size")
        .default(Preset::Integer(1)),
    FlagSpec::choice("reasoning-parser", PARSERS, "Parser."),
    FlagSpec::count("max-total-tokens", "Limit."),
    FlagSpec::on_off("fast", "Fast."),
    FlagSpec::text("hook", "Hook.").takes(Takes::Maybe("auto")),
    FlagSpec::words("names", "Names.").takes(Takes::Any),
    FlagSpec::words("prefill-url", "Address.").exclusive("profile"),
    FlagSpec::words("decode-url", "Address.").exclusive("profile"),
];

fn value(line: &str, name: &str) -> String {
    let args: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    match parse(TABLE, &args) {
        Ok(parsed) => parsed.value(name).to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn values_come_from_the_line_or_the_table() {
    let cases = [
        ("", "port", "None"),
        ("", "request-rate", "inf"),
        ("--port 30000", "port", "30000"),
        ("--port=30000", "port", "30000"),
        ("--port 1 --port 2", "port", "2"),
        ("--num-prompt 7", "num-prompts", "7"),
        ("--num=7", "num-prompts", "7"),
        ("--request-rate 20", "request-rate", "20.0"),
        ("--request-rate 1e-5", "request-rate", "1e-05"),
        ("--request-rate -1.5", "request-rate", "-1.5"),
        ("--port -1", "port", "-1"),
        ("--tp 8", "tensor-parallel-size", "8"),
        ("--tens 8", "tp-size", "8"),
        ("--disable-tqdm", "disable-tqdm", "True"),
        ("--disable-tqdm", "disable-stream", "False"),
        (
            "--profile-activities CPU --port 1",
            "profile-activities",
            "['CPU']",
        ),
        (
            "--cuda-graph-bs 1 2 -3 --fast",
            "cuda-graph-bs",
            "[1, 2, -3]",
        ),
        ("--cuda-graph-bs=4", "cuda-graph-bs", "[4]"),
        ("--max-total-tokens 25.6k", "max-total-tokens", "25600"),
        ("--max-total-tokens 16Ki", "max-total-tokens", "16384"),
        ("--max-total-tokens 16_384", "max-total-tokens", "16384"),
        ("--fast", "fast", "True"),
        ("--no-fast", "fast", "False"),
        ("", "fast", "None"),
        ("--hook", "hook", "'auto'"),
        ("--hook x", "hook", "'x'"),
        ("--names", "names", "[]"),
        ("--base-url=a=b", "base-url", "'a=b'"),
        ("--base-url=", "base-url", "''"),
        ("--base-url it's", "base-url", "\"it's\""),
        ("--base-url -", "base-url", "'-'"),
    ];
    for (line, name, expected) in cases {
        assert_eq!(value(line, name), expected, "{line}");
    }
}

#[test]
fn mistakes_are_named_with_what_was_meant() {
    let cases = [
        ("--prot 1", "unknown option --prot; did you mean --port?"),
        (
            "--num_prompts 1",
            "unknown option --num_prompts; did you mean --num-prompts?",
        ),
        ("--zzzzzzzz", "unknown option --zzzzzzzz"),
        ("-p 1", "unknown option -p"),
        (
            "--disable",
            "ambiguous option: --disable could match --disable-stream, --disable-tqdm",
        ),
        ("--port", "argument --port: expected one argument"),
        ("--port --fast", "argument --port: expected one argument"),
        (
            "--prefill-url",
            "argument --prefill-url: expected at least one argument",
        ),
        ("--port x", "argument --port: invalid int value: 'x'"),
        (
            "--port 99999999999999999999",
            "argument --port: invalid int value: '99999999999999999999'",
        ),
        (
            "--request-rate x",
            "argument --request-rate: invalid float value: 'x'",
        ),
        (
            "--max-total-tokens 1.5Ki",
            "argument --max-total-tokens: invalid int value: '1.5Ki'",
        ),
        (
            "--tp=x",
            "argument --tensor-parallel-size/--tp-size/--tp: invalid int value: 'x'",
        ),
        (
            "--disable-tqdm=1",
            "argument --disable-tqdm: takes no value, got '1'",
        ),
        (
            "--reasoning-parser deepseek_r1",
            "argument --reasoning-parser: invalid choice: 'deepseek_r1'; did you mean 'deepseek-r1'? \
             (choose from deepseek-r1, deepseek-v3, qwen3, kimi)",
        ),
        (
            "--prefill-url a --decode-url b",
            "argument --decode-url: not allowed with argument --prefill-url",
        ),
        ("loose words", "unrecognized arguments: loose words"),
    ];
    for (line, expected) in cases {
        assert_eq!(value(line, "port"), expected, "{line}");
    }
}

#[test]
fn the_echo_is_a_python_namespace_in_the_order_of_declaration() {
    let mut parsed = parse(TABLE, &["--tp", "2", "--num-prompts=256"]).unwrap();
    parsed.set("port", Value::Integer(30000));
    assert_eq!(
        parsed.namespace(|flag| flag.exclusive.is_none()),
        "Namespace(backend='sglang', base_url=None, port=30000, num_prompts=256, request_rate=inf, \
         disable_tqdm=False, disable_stream=False, profile_activities=['CPU', 'GPU'], \
         cuda_graph_bs=None, tp_size=2, reasoning_parser=None, max_total_tokens=None, fast=None, \
         hook=None, names=None)"
    );
    assert!(parsed.given("tp") && !parsed.given("port"));
    assert_eq!(parsed.setting("tp").spelled.as_deref(), Some("--tp"));
}

#[test]
fn python_literals_are_written_as_python_does() {
    let cases = [
        (Value::Float(1e16), "1e+16"),
        (Value::Float(0.0001), "0.0001"),
        (Value::Float(-2.5e-7), "-2.5e-07"),
        (Value::Float(1e100), "1e+100"),
        (Value::Float(f64::NAN), "nan"),
        (Value::Float(f64::NEG_INFINITY), "-inf"),
        (Value::Text("a\n\t\\\u{1}".into()), "'a\\n\\t\\\\\\x01'"),
        (Value::Text("'\"".into()), "'\\'\"'"),
        (Value::Text("é".into()), "'é'"),
    ];
    for (value, expected) in cases {
        assert_eq!(value.to_string(), expected);
    }
}

#[test]
fn typed_getters_answer_only_for_their_type() {
    let parsed = parse(
        TABLE,
        &[
            "--cuda-graph-bs",
            "1",
            "2",
            "--request-rate",
            "3",
            "--names",
            "a",
        ],
    )
    .unwrap();
    assert_eq!(parsed.integers("cuda-graph-bs"), Some(vec![1, 2]));
    assert_eq!(parsed.list("cuda-graph-bs"), None);
    assert_eq!(parsed.list("names"), Some(vec!["a"]));
    assert_eq!(parsed.float("request-rate"), Some(3.0));
    assert_eq!(parsed.float("num-prompts"), Some(1000.0));
    assert_eq!(parsed.text("port"), None);
    assert!(!parsed.switch("fast"));
}

const GENERATE: Command<'static> = Command {
    program: "peregrine generate",
    about: "Generates once.",
    positionals: &[
        Positional {
            name: "TEXT",
            takes: Takes::One,
            help: "The prompt.",
        },
        Positional {
            name: "MODEL",
            takes: Takes::Maybe(""),
            help: "The model.",
        },
    ],
    groups: &[Group {
        title: "sampling",
        flags: &[
            FlagSpec::float("temperature", "Heat.").default(Preset::Float(1.0)),
            FlagSpec::choice("dtype", &["auto", "half"], "Numbers.").required(),
            FlagSpec::on_off("echo", "Repeats the prompt."),
        ],
    }],
};

#[test]
fn words_and_flags_mix_and_two_dashes_end_the_flags() {
    let words = |args: &[&str]| GENERATE.parse(args).map(|parsed| parsed.words().to_vec());
    let given = words(&["--dtype", "half", "a b", "--temperature", "0", "m"]).unwrap();
    assert_eq!(given, ["a b", "m"]);
    assert_eq!(
        words(&["--dtype=half", "--", "--temperature"]).unwrap(),
        ["--temperature"]
    );
    assert_eq!(
        words(&["--dtype=half", "- a dash and spaces"]).unwrap(),
        ["- a dash and spaces"]
    );
    let required = FlagError::Required {
        names: vec!["--dtype".into(), "TEXT".into()],
    };
    assert_eq!(words(&[]).unwrap_err(), required);
    assert_eq!(required.exit_code(), 2);
    let extra = words(&["--dtype=half", "a", "b", "c"]).unwrap_err();
    assert_eq!(
        extra,
        FlagError::UnexpectedWords {
            words: vec!["c".into()]
        }
    );
}

#[test]
fn help_wins_over_missing_flags_and_is_made_from_the_table() {
    for args in [["-h"], ["--help"], ["--he"]] {
        let asked = GENERATE.parse(&args).unwrap_err();
        assert_eq!((asked.exit_code(), asked), (0, FlagError::HelpAsked));
    }
    assert_eq!(
        GENERATE.help(),
        "usage: peregrine generate TEXT [MODEL] [options]\n\nGenerates once.\n\narguments:\n  TEXT\n        The prompt.\n  MODEL\n        The model.\n\n\
         sampling:\n  --temperature X\n        Heat. Default: 1.0.\n  --dtype CHOICE\n        Numbers. One of: auto, half. Required.\n  --[no-]echo\n        Repeats the prompt.\n"
    );
}

#[test]
fn nothing_near_is_nothing() {
    assert_eq!(nearest("qwne3", PARSERS.iter().copied()), Some("qwen3"));
    assert_eq!(nearest("Kimi", PARSERS.iter().copied()), Some("kimi"));
    assert_eq!(nearest("llama", PARSERS.iter().copied()), None);
    assert_eq!(nearest("", PARSERS.iter().copied()), None);
}
