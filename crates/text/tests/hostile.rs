//! Files from outside that are broken or hostile end in an error, never in a panic or a hang.

#![expect(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod shared;

use serde_json::Value;
use shared::Dice;
use text::{
    GgufVocabulary, RenderInput, SpecialTokens, Template, TemplateError, Tokenizer, TokenizerError,
};

/// A tokenizer that loads must also survive being used; the library must never break.
fn survives(result: Result<Tokenizer, TokenizerError>, what: &dyn Fn() -> String) -> bool {
    let tokenizer = match result {
        Ok(tokenizer) => tokenizer,
        Err(TokenizerError::LibraryBroke(message)) => panic!("{message}: {}", what()),
        Err(_) => return false,
    };
    for text in ["", "The fast bird's 12 é🦅\n\n  <|end|>x"] {
        match tokenizer.encode(text, true) {
            Ok(ids) => drop(tokenizer.decode(&ids, true)),
            Err(TokenizerError::LibraryBroke(message)) => panic!("{message}: {}", what()),
            Err(_) => {}
        }
    }
    true
}

/// Changes a few bytes, cuts the end off, or repeats a stretch.
fn mutate_bytes(dice: &mut Dice, bytes: &mut Vec<u8>) {
    for _ in 0..=dice.below(3) {
        let at = dice.below(bytes.len());
        match dice.below(5) {
            0 => bytes.truncate(at),
            1 => bytes[at] = dice.below(256) as u8,
            2 => bytes[at] = b"\"{}[]:,0919-e.nt\\ "[dice.below(18)],
            3 => drop(bytes.splice(at..at, [b'9'; 9])),
            _ => {
                let end = bytes.len().min(at + dice.below(40));
                let stretch = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, stretch));
            }
        }
        if bytes.is_empty() {
            return;
        }
    }
}

/// Replaces a value somewhere in the tree by one of another kind or size.
fn mutate_tree(dice: &mut Dice, value: &mut Value) {
    let go_deeper = dice.below(4) > 0;
    match value {
        Value::Array(items) if go_deeper && !items.is_empty() => {
            let at = dice.below(items.len());
            mutate_tree(dice, &mut items[at]);
        }
        Value::Object(fields) if go_deeper && !fields.is_empty() => {
            let at = dice.below(fields.len());
            let (_, field) = fields.iter_mut().nth(at).unwrap();
            mutate_tree(dice, field);
        }
        _ => {
            let replacements = [
                Value::Null,
                true.into(),
                0.into(),
                u32::MAX.into(),
                u64::MAX.into(),
                (-1).into(),
                1e300.into(),
                "".into(),
                "a b c".into(),
                "(?:".into(),
                "(a*)*b".into(),
                "\u{10ffff}▁Ġ".into(),
                Value::Array(Vec::new()),
                serde_json::json!(["a", "b", "c"]),
                serde_json::json!({"type": "Sequence"}),
                serde_json::json!({"a": 4_000_000_000_u32}),
            ];
            *value = replacements[dice.below(replacements.len())].clone();
        }
    }
}

fn shrunk(name: &str) -> Value {
    let mut file: Value = serde_json::from_slice(&shared::tiny_file(name)).unwrap();
    if let Some(merges) = file["model"]["merges"].as_array_mut() {
        merges.truncate(12);
    }
    file
}

#[test]
fn tokenizer_files_with_changed_bytes_do_no_harm() {
    let mut dice = Dice(11);
    let mut loaded = 0;
    let original = serde_json::to_vec(&shrunk("qwen_like")).unwrap();
    for _ in 0..2500 {
        let mut bytes = original.clone();
        mutate_bytes(&mut dice, &mut bytes);
        let shown = || String::from_utf8_lossy(&bytes).into_owned();
        loaded += usize::from(survives(Tokenizer::from_tokenizer_json(&bytes), &shown));
    }
    assert!(
        loaded > 50,
        "only {loaded} mutations were mild enough to load"
    );
}

#[test]
fn tokenizer_files_with_changed_values_do_no_harm() {
    let mut dice = Dice(13);
    for name in [
        "qwen_like",
        "smollm_like",
        "llama_like",
        "unigram",
        "wordpiece",
    ] {
        let original = shrunk(name);
        for _ in 0..500 {
            let mut file = original.clone();
            for _ in 0..=dice.below(3) {
                mutate_tree(&mut dice, &mut file);
            }
            let bytes = serde_json::to_vec(&file).unwrap();
            let shown = || String::from_utf8_lossy(&bytes).into_owned();
            survives(Tokenizer::from_tokenizer_json(&bytes), &shown);
        }
    }
}

fn mutate_gguf(dice: &mut Dice, vocabulary: &mut GgufVocabulary) {
    const MERGES: [&str; 8] = ["", " ", "a", "a ", " b", "a b c", "é 🦅", "Ġ Ġ"];
    let tokens = vocabulary.tokens.len();
    let any = |dice: &mut Dice, list: &[String]| list[dice.below(list.len())].clone();
    match dice.below(12) {
        0 => vocabulary.tokens.truncate(dice.below(tokens)),
        1 => vocabulary.token_types.truncate(dice.below(tokens)),
        2 => vocabulary.scores = vec![f32::NAN; dice.below(2) * tokens],
        3 => vocabulary
            .merges
            .insert(0, MERGES[dice.below(8)].to_owned()),
        4 => {
            let merge = any(dice, &vocabulary.tokens) + " " + &any(dice, &vocabulary.tokens);
            vocabulary
                .merges
                .insert(dice.below(vocabulary.merges.len()), merge);
        }
        5 => vocabulary.merges.push(any(dice, &vocabulary.merges)),
        6 => {
            let (at, token) = (dice.below(tokens), any(dice, &vocabulary.tokens));
            vocabulary.tokens[at] = token;
        }
        7 => {
            let at = dice.below(vocabulary.token_types.len());
            vocabulary.token_types[at] = dice.below(9) as i32 - 1;
        }
        8 => vocabulary.bos = Some([0, 5, 421, 422, u32::MAX][dice.below(5)]),
        9 => vocabulary.eot = Some(dice.below(1000) as u32),
        10 => vocabulary.model = String::from(["gpt2", "llama", "", "bert"][dice.below(4)]),
        _ => vocabulary.pre = [None, Some("smollm"), Some("")][dice.below(3)].map(String::from),
    }
}

#[test]
fn gguf_vocabularies_with_changed_parts_do_no_harm() {
    let mut dice = Dice(17);
    let mut loaded = 0;
    let original = shared::tiny_gguf("smollm_like", "smollm");
    for _ in 0..2500 {
        let mut vocabulary = original.clone();
        for _ in 0..=dice.below(3) {
            if !vocabulary.tokens.is_empty() && !vocabulary.token_types.is_empty() {
                mutate_gguf(&mut dice, &mut vocabulary);
            }
        }
        let shown = || format!("{vocabulary:?}");
        loaded += usize::from(survives(Tokenizer::from_gguf(vocabulary.clone()), &shown));
    }
    assert!(
        loaded > 200,
        "only {loaded} mutations were mild enough to load"
    );
}

#[test]
fn particular_tokenizer_files_are_refused_with_the_reason() {
    let base = |model: &str| format!(r#"{{"added_tokens": [], "model": {model}}}"#);
    let table = [
        (String::new(), "tokenizer.json is malformed: EOF while parsing"),
        ("{}".to_owned(), "tokenizer.json is malformed: missing field `model`"),
        ("\u{0}".to_owned(), "tokenizer.json is malformed: expected value"),
        (format!(r#"{{"normalizer": {}"#, "[".repeat(10_000)), "tokenizer.json is malformed: recursion limit exceeded"),
        (base(r#"{"type": "BPE", "vocab": {}, "merges": []}"#), "the vocabulary is empty"),
        (base(r#"{"type": "Magic", "vocab": {"a": 0}}"#), "tokenizer model \"Magic\" is not supported"),
        (base(r#"{"type": "BPE", "vocab": {"a": 4294967295}, "merges": []}"#), "token id 4294967295 is too large"),
        (base(r#"{"type": "BPE", "vocab": {"a": 99999999999}, "merges": []}"#), "tokenizer.json is malformed: invalid value"),
        (base(r#"{"type": "BPE", "vocab": {"a": -1}, "merges": []}"#), "tokenizer.json is malformed: invalid value"),
        (base(r#"{"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["a b"]}"#), "merge 0 (\"a b\") makes a token that is not in the vocabulary"),
        (base(r#"{"type": "BPE", "vocab": {"a": 0, "abc": 1}, "merges": ["a x"]}"#), "tokenizer: Token `x` out of vocabulary"),
        (base(r#"{"type": "BPE", "vocab": {"aa": 0}, "merges": [["", "aa"]]}"#), "merge 0 (\" aa\") has an empty half"),
        (base(r#"{"type": "BPE", "vocab": {"a": 0, "é": 1}, "merges": ["a é"], "continuing_subword_prefix": "x"}"#), "merge 0 (\"a é\") has a second half without"),
        (base(r#"{"type": "Unigram", "vocab": [["a", 1.0]], "unk_id": 5}"#), "tokenizer: The `unk_id` is larger"),
        (base(r#"{"type": "Unigram", "vocab": {"a": 0}}"#), "tokenizer.json is malformed: the vocabulary of a Unigram"),
        (r#"{"model": {"vocab": {"a": 0}, "merges": []}, "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated", "invert": false}}"#.to_owned(), "tokenizer.json is malformed: pre_tokenizer: "),
    ];
    for (file, expected) in table {
        let error = Tokenizer::from_tokenizer_json(file.as_bytes())
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(expected), "{error:?} for {file:.100}");
    }
}

#[test]
fn cyclic_and_repeated_merges_come_to_an_end() {
    let file = r#"{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "ba": 3, "aba": 4, "bab": 5, "abab": 6},
        "merges": ["a b", "b a", "ab a", "a ba", "b ab", "ab ab", "a b", "ab ab"]}}"#;
    let tokenizer = Tokenizer::from_tokenizer_json(file.as_bytes()).unwrap();
    let ids = tokenizer.encode(&"ab".repeat(2000), false).unwrap();
    let bytes: usize = ids
        .iter()
        .map(|id| tokenizer.token_bytes(*id).unwrap().len())
        .sum();
    assert_eq!(bytes, 4000);
}

#[test]
fn a_template_without_end_is_stopped() {
    let loops = "{% for a in range(90000) %}{% for b in range(90000) %}{% set c = a + b %}{% endfor %}{% endfor %}";
    let recursion = "{% macro again(n) %}{{ again(n + 1) }}{% endmacro %}{{ again(0) }}";
    let messages = serde_json::json!([{"role": "user", "content": "x"}]);
    for (source, fuel) in [(loops, true), (recursion, false)] {
        let template = Template::compile(source, &SpecialTokens::default()).unwrap();
        let error = template.render(RenderInput::new(&messages)).unwrap_err();
        assert_eq!(
            matches!(error, TemplateError::TooLong { .. }),
            fuel,
            "{error}"
        );
    }
}

#[test]
fn a_template_cannot_reach_files_or_other_templates() {
    for source in [
        "{% include '/etc/hostname' %}",
        "{% extends '/etc/hostname' %}",
        "{% import 'chat.jinja' as c %}{{ c }}",
    ] {
        let messages = serde_json::json!([{"role": "user", "content": "x"}]);
        let rendered = Template::compile(source, &SpecialTokens::default())
            .and_then(|template| template.render(RenderInput::new(&messages)));
        assert!(rendered.is_err(), "{source}");
    }
}

#[test]
fn templates_with_changed_bytes_do_no_harm() {
    let mut dice = Dice(19);
    let small = shared::golden("small_templates.json");
    let world = shared::golden("conversations.json");
    let cases = world["cases"].as_array().unwrap();
    for template in small["templates"].as_array().unwrap() {
        let original = template["source"].as_str().unwrap().as_bytes();
        for _ in 0..120 {
            let mut bytes = original.to_vec();
            mutate_bytes(&mut dice, &mut bytes);
            let source = String::from_utf8_lossy(&bytes);
            let Ok(template) = Template::compile(&source, &SpecialTokens::default()) else {
                continue;
            };
            let case = &cases[dice.below(cases.len())];
            let input = RenderInput {
                tools: Some(&world["tools"]),
                ..RenderInput::new(&case["messages"])
            };
            drop(template.render(input));
        }
    }
}
