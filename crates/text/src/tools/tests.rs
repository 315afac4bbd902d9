use super::*;

type Calls = Vec<(String, String)>;

/// Feeds a text in pieces of so many characters; the content, and the calls with their arguments.
fn run(name: &str, text: &str, step: usize) -> (String, Calls) {
    let mut parser = ToolParser::new(name.parse().unwrap());
    let characters: Vec<char> = text.chars().collect();
    let mut events = Vec::new();
    for piece in characters.chunks(step) {
        events.extend(parser.push(&piece.iter().collect::<String>()));
    }
    events.extend(parser.flush());
    let (mut content, mut calls) = (String::new(), Calls::new());
    for event in events {
        match event {
            ToolEvent::Content(text) => content.push_str(&text),
            ToolEvent::Call { index, name } => {
                assert_eq!(index, calls.len());
                calls.push((name, String::new()));
            }
            ToolEvent::Arguments { index, text } => {
                assert_eq!(index + 1, calls.len(), "arguments belong to the last call");
                calls[index].1.push_str(&text);
            }
        }
    }
    assert_eq!(parser.calls(), calls.len());
    (content, calls)
}

/// Parser, what the model said, the content, the calls with their arguments.
type Transcript = (
    &'static str,
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

const HERMES: &[Transcript] = &[
    (
        "qwen25",
        "Let me look.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"place\": \"Paris\", \"days\": [1, 2]}}\n</tool_call>",
        "Let me look.",
        &[("get_weather", r#"{"place": "Paris", "days": [1, 2]}"#)],
    ),
    (
        "qwen",
        "<tool_call>{\"name\": \"a\", \"arguments\": {}}</tool_call>\n<tool_call>\n{\"arguments\": {\"x\": \"}\\\"</tool_call>\"}, \"name\": \"b\"}\n</tool_call>\nDone.",
        "\nDone.",
        &[("a", "{}"), ("b", r#"{"x": "}\"</tool_call>"}"#)],
    ),
    (
        "hermes",
        "<tool_call>{\"name\": \"a\"}</tool_call>",
        "",
        &[("a", "{}")],
    ),
    (
        "qwen25",
        "<tool_call>{\"name\": \"a\", \"arguments\": \"{\\\"x\\\": 1}\"}",
        "",
        &[("a", r#"{"x": 1}"#)],
    ),
    (
        "qwen25",
        "<tool_call>{\"name\": \"a\", \"arguments\": null, \"id\": 7}</tool_call>",
        "",
        &[("a", "{}")],
    ),
    (
        "qwen25",
        "<tool_call>{\"name\": \"a\", \"arguments\": {\"x\": \"cut",
        "",
        &[("a", r#"{"x": "cut"#)],
    ),
    (
        "qwen25",
        "<tool_call>not json</tool_call> and on",
        "<tool_call>not json</tool_call> and on",
        &[],
    ),
    (
        "qwen25",
        "<tool_call>{\"x\": 1}</tool_call>",
        "<tool_call>{\"x\": 1}</tool_call>",
        &[],
    ),
    ("qwen25", "plain <tool text \n", "plain <tool text \n", &[]),
    ("qwen25", "cut <tool_cal", "cut <tool_cal", &[]),
    ("qwen25", "<tool_call>{\"na", "<tool_call>{\"na", &[]),
    ("qwen25", "look: <tool_call>", "look: <tool_call>", &[]),
    (
        "qwen25",
        "<tool_call>{\"name\": \"日本\", \"arguments\": {\"k\": \"🦅\"}}<tool_call>{\"name\": \"b\", \"arguments\": {}}</tool_call>",
        "",
        &[("日本", r#"{"k": "🦅"}"#), ("b", "{}")],
    ),
];

const LLAMA3: &[Transcript] = &[
    (
        "llama3",
        "<|python_tag|>{\"name\": \"f\", \"parameters\": {\"a\": 1}}",
        "",
        &[("f", r#"{"a": 1}"#)],
    ),
    (
        "llama3",
        "{\"name\": \"f\", \"parameters\": {\"a\": 1}}",
        "",
        &[("f", r#"{"a": 1}"#)],
    ),
    (
        "llama3",
        " <|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"arguments\": {\"b\": null}}\n",
        "",
        &[("f", "{}"), ("g", r#"{"b": null}"#)],
    ),
    ("llama3", "{\"answer\": 42}", "{\"answer\": 42}", &[]),
    (
        "llama3",
        "Sure: <|python_tag|>{\"name\": \"f\", \"parameters\": {}}",
        "Sure:",
        &[("f", "{}")],
    ),
    (
        "llama3",
        "A plain answer with { braces }.",
        "A plain answer with { braces }.",
        &[],
    ),
    ("llama3", "  {\"na", "{\"na", &[]),
    ("llama3", "<|python", "<|python", &[]),
    ("llama3", "<|python_tag|>print(1)", "print(1)", &[]),
];

const MISTRAL: &[Transcript] = &[
    (
        "mistral",
        "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": [1]}}, {\"name\": \"g\", \"arguments\": {}, \"id\": \"x\"}]",
        "",
        &[("f", r#"{"a": [1]}"#), ("g", "{}")],
    ),
    (
        "mistral",
        "Hm.\n[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[CALL_ID]abc123[ARGS]{\"b\": 2}",
        "Hm.",
        &[("f", r#"{"a": 1}"#), ("g", r#"{"b": 2}"#)],
    ),
    (
        "mistral",
        "[TOOL_CALLS]f{\"a\": \"]\"}",
        "",
        &[("f", r#"{"a": "]"}"#)],
    ),
    ("mistral", "plain [TOOL] text", "plain [TOOL] text", &[]),
    ("mistral", "[TOOL_CALLS][{\"x\": 1}]", "{\"x\": 1}]", &[]),
    (
        "mistral",
        "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\"",
        "",
        &[("f", "{\"a\"")],
    ),
];

const DEEPSEEK: &[Transcript] = &[
    (
        "deepseekv3",
        "Ok.\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": \"``` \"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "Ok.",
        &[("f", "{\"a\": \"``` \"}"), ("g", "{}")],
    ),
    (
        "deepseekv31",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>bye",
        "bye",
        &[("f", "{\"a\": 1}"), ("g", "{}")],
    ),
    ("deepseekv3", "plain <｜tool▁", "plain <｜tool▁", &[]),
    (
        "deepseekv3",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f<｜tool▁call▁end｜>",
        "",
        &[("f", "{}")],
    ),
];

const PYTHONIC: &[Transcript] = &[
    (
        "pythonic",
        "[get_weather(place=\"Paris, ]\", days=2), add(values=[1, 2.5], options={'round': True})]",
        "",
        &[
            ("get_weather", r#"{"place":"Paris, ]","days":2}"#),
            ("add", r#"{"values":[1,2.5],"options":{"round":true}}"#),
        ],
    ),
    (
        "pythonic",
        "<|python_start|>[f()]<|python_end|>",
        "",
        &[("f", "{}")],
    ),
    (
        "pythonic",
        " [f(a='x\\'y')] then text",
        " then text",
        &[("f", r#"{"a":"x'y"}"#)],
    ),
    (
        "pythonic",
        "[1, 2, 3] is a list",
        "[1, 2, 3] is a list",
        &[],
    ),
    (
        "pythonic",
        "[see below](link) for more",
        "[see below](link) for more",
        &[],
    ),
    ("pythonic", "[f(1)]", "[f(1)]", &[]),
    ("pythonic", "No calls [f()]", "No calls [f()]", &[]),
    (
        "pythonic",
        "[f(a=1), broken(]",
        "broken(]",
        &[("f", r#"{"a":1}"#)],
    ),
    ("pythonic", "[f(a=", "[f(a=", &[]),
    ("pythonic", "[]", "[]", &[]),
];

const GPT_OSS: &[Transcript] = &[
    (
        "gpt-oss",
        "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"place\": \"Paris\"}<|call|>",
        "",
        &[("get_weather", "{\"place\": \"Paris\"}")],
    ),
    (
        "gpt-oss",
        "Looking.<|start|>assistant<|channel|>commentary to=functions.f<|message|><|call|><|start|>assistant to=functions.g<|channel|>commentary<|message|>{}<|call|>",
        "Looking.",
        &[("f", "{}"), ("g", "{}")],
    ),
    (
        "gpt-oss",
        "<|channel|>final<|message|>Paris.<|return|>",
        "Paris.",
        &[],
    ),
    ("gpt-oss", "plain", "plain", &[]),
];

#[test]
fn transcripts_come_apart_the_same_however_they_are_cut() {
    let tables = [HERMES, LLAMA3, MISTRAL, DEEPSEEK, PYTHONIC, GPT_OSS];
    for (name, text, content, calls) in tables.concat() {
        let calls: Calls = calls
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect();
        for step in [1, 2, 3, 7, 11, 10_000] {
            let got = run(name, text, step);
            assert_eq!(
                got,
                (content.to_owned(), calls.clone()),
                "{name}: {text:?} by {step}"
            );
        }
    }
}

#[test]
fn arguments_are_said_while_they_come() {
    let mut parser = ToolParser::new(ToolFormat::Hermes);
    let call = ToolEvent::Call {
        index: 0,
        name: "f".to_owned(),
    };
    let arguments = |text: &str| ToolEvent::Arguments {
        index: 0,
        text: text.to_owned(),
    };
    assert_eq!(parser.push("<tool_call>{\"name\": \"f\""), [call]);
    assert_eq!(parser.push(", \"arguments\": {\"a"), [arguments("{\"a")]);
    assert_eq!(parser.push("\": 1}}"), [arguments("\": 1}")]);
    assert_eq!(parser.push("</tool_call>"), []);
}

#[test]
fn random_texts_of_marks_and_brackets_never_break_a_parser() {
    let parts = [
        "<tool_call>",
        "</tool_call>",
        "{",
        "}",
        "[",
        "]",
        "\"name\"",
        ":",
        "\"f\"",
        ",",
        "\"arguments\"",
        "\\",
        "\"",
        "(",
        ")",
        "=",
        "f",
        "'",
        "<|python_tag|>",
        "[TOOL_CALLS]",
        "[ARGS]",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁sep｜>",
        "\n",
        "<｜tool▁call▁end｜>",
        "<|channel|>",
        "to=functions.f",
        "<|message|>",
        "<|call|>",
        " ",
        "é",
    ];
    let mut state: u64 = 5;
    for _ in 0..700 {
        let mut text = String::new();
        for _ in 0..12 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            text.push_str(parts[(state >> 33) as usize % parts.len()]);
        }
        for name in ToolFormat::NAMES {
            assert_eq!(
                run(name, &text, 1),
                run(name, &text, 10_000),
                "{name}: {text:?}"
            );
        }
    }
}

#[test]
fn an_unknown_name_is_refused_with_the_known_ones() {
    let error = "qwen9".parse::<ToolFormat>().unwrap_err().to_string();
    assert!(error.starts_with("tool-call parser \"qwen9\" is not known, known are deepseekv3, "));
}
