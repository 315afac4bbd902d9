//! What recurses over input from outside has a depth at which it stops: everything here runs on the stack that a thread
//! of the server has, and a stack that overflows ends the whole process.

#![expect(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

use serde_json::{Value, json};
use text::{SpecialTokens, Template, Tokenizer, ToolFormat, ToolParser};

const STACK: usize = 2 << 20;
const DEEP: usize = 100_000;

fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(work);
    thread.unwrap().join().unwrap();
}

fn nested(open: &str, inside: &str, close: &str, depth: usize) -> String {
    [&open.repeat(depth), inside, &close.repeat(depth)].concat()
}

fn with_section(name: &str, section: &str) -> Vec<u8> {
    format!(
        r#"{{"model": {{"type": "BPE", "vocab": {{"a": 0}}, "merges": []}}, "{name}": {section}}}"#
    )
    .into_bytes()
}

#[test]
fn tokenizer_files_nested_deep_are_refused_or_read() {
    on_a_small_stack(|| {
        let sections = [
            (
                "normalizer",
                r#"{"type": "Sequence", "normalizers": ["#,
                r#"{"type": "NFC"}"#,
            ),
            (
                "pre_tokenizer",
                r#"{"type": "Sequence", "pretokenizers": ["#,
                r#"{"type": "Whitespace"}"#,
            ),
            (
                "decoder",
                r#"{"type": "Sequence", "decoders": ["#,
                r#"{"type": "Fuse"}"#,
            ),
            (
                "post_processor",
                r#"{"type": "Sequence", "processors": ["#,
                r#"{"type": "ByteLevel"}"#,
            ),
        ];
        for (name, open, inside) in sections {
            for depth in [10, 60, DEEP] {
                let file = with_section(name, &nested(open, inside, "]}", depth));
                if let Ok(tokenizer) = Tokenizer::from_tokenizer_json(&file) {
                    drop(tokenizer.decode(&tokenizer.encode("a", true).unwrap(), false));
                }
            }
        }
    });
}

#[test]
fn pieces_too_long_to_be_dropped_are_refused() {
    on_a_small_stack(|| {
        let load = |length: usize| {
            let vocabulary = json!([["a", 0.0], ["b".repeat(length), -1.0]]);
            let file = json!({"model": {"type": "Unigram", "unk_id": 0, "vocab": vocabulary}});
            Tokenizer::from_tokenizer_json(file.to_string().as_bytes())
        };
        drop(load(2048).unwrap());
        assert_eq!(
            load(2 * DEEP).unwrap_err().to_string(),
            "tokenizer.json is malformed: a piece has 200000 bytes, the limit is 2048"
        );
    });
}

#[test]
fn patterns_of_tokenizer_files_nested_deep_are_refused_or_used() {
    on_a_small_stack(|| {
        for depth in [100, 1_000, 4_000, DEEP] {
            for (open, close) in [("(", ")"), ("(?:", ")*"), ("[", "]"), ("(?=", ")")] {
                let pattern = nested(open, "a", close, depth);
                let split = json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
                let file = with_section("pre_tokenizer", &split.to_string());
                if let Ok(tokenizer) = Tokenizer::from_tokenizer_json(&file) {
                    drop(tokenizer.encode("aaa", false));
                }
            }
        }
    });
}

#[test]
fn templates_nested_deep_are_refused_or_compiled() {
    on_a_small_stack(|| {
        for depth in [100, 149, 1_000, DEEP] {
            for (open, close) in [
                ("(", ")"),
                ("[", "]"),
                ("{'a':", "}"),
                ("a[", "]"),
                ("f(", ")"),
                ("-", ""),
                ("not ", ""),
                ("a if ", " else b"),
                ("a if b else ", ""),
                ("a ** ", ""),
                ("a or ", ""),
                ("a < ", ""),
                ("a is b ", ""),
            ] {
                let source = format!("{{{{ {} }}}}", nested(open, "x", close, depth));
                drop(Template::compile(&source, &SpecialTokens::default()));
            }
            for (open, close) in [
                ("{% if a %}", "{% endif %}"),
                ("{% for a in b %}", "{% endfor %}"),
                ("{% macro a() %}", "{% endmacro %}"),
                ("{% set a %}", "{% endset %}"),
                ("{% filter upper %}", "{% endfilter %}"),
                ("{% if a %}{% else %}", "{% endif %}"),
                ("{% call a() %}", "{% endcall %}"),
            ] {
                let source = nested(open, "x", close, depth);
                drop(Template::compile(&source, &SpecialTokens::default()));
            }
        }
    });
}

#[test]
fn tool_calls_nested_deep_are_text_or_calls() {
    on_a_small_stack(|| {
        for name in ToolFormat::NAMES {
            let format: ToolFormat = name.parse().unwrap();
            for (open, close) in [
                ("[", "]"),
                ("{\"a\":", "}"),
                ("(", ")"),
                ("f(x=", ")"),
                ("<tool_call>", "</tool_call>"),
            ] {
                let arguments = nested(open, "1", close, DEEP / 10);
                for call in [
                    format!(
                        "<tool_call>\n{{\"name\": \"f\", \"arguments\": {arguments}}}\n</tool_call>"
                    ),
                    format!("[f(x={arguments})]"),
                    format!("<|python_tag|>{{\"name\": \"f\", \"parameters\": {arguments}}}"),
                    format!("[TOOL_CALLS] [{{\"name\": \"f\", \"arguments\": {arguments}}}]"),
                    arguments.clone(),
                ] {
                    let mut parser = ToolParser::new(format);
                    drop(parser.push(&call));
                    drop(parser.flush());
                }
            }
        }
    });
}

#[test]
fn conversations_nested_as_deep_as_json_may_be_are_rendered() {
    on_a_small_stack(|| {
        let deep: Value = serde_json::from_str(&nested("[", "1", "]", 126)).unwrap();
        let messages = json!([{"role": "user", "content": "x", "deep": deep}]);
        let source = "{{ messages | tojson }}{{ messages }}{{ messages | string | length }}";
        let template = Template::compile(source, &SpecialTokens::default()).unwrap();
        let rendered = template.render(text::RenderInput::new(&messages)).unwrap();
        assert!(rendered.contains(&"[".repeat(126)));
    });
}
