//! Steps of a tokenizer file that make a text much longer are refused, at load or where they do it.

#![expect(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

use serde_json::Value;
use text::{Tokenizer, TokenizerError};

/// A tokenizer of one letter with this section.
fn with_section(name: &str, section: &Value) -> Result<Tokenizer, TokenizerError> {
    let file = serde_json::json!({
        "added_tokens": [{"content": "<a>", "normalized": true}],
        "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
        name: section,
    });
    Tokenizer::from_tokenizer_json(file.to_string().as_bytes())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn around(single: &[Value], ids: usize) -> Value {
    let ids: Vec<u32> = vec![0; ids];
    let tokens = vec!["a"; ids.len()];
    serde_json::json!({"type": "TemplateProcessing", "single": single, "pair": [],
        "special_tokens": {"a": {"id": "a", "ids": ids, "tokens": tokens}}})
}

/// A charsmap with a trie of one unit that leads nowhere.
fn charsmap(trie: &[u8], text: &str) -> Value {
    let bytes = [trie, &[0; 4], text.as_bytes(), b"\0"].concat();
    serde_json::json!({"type": "Precompiled", "precompiled_charsmap": base64(&bytes)})
}

#[test]
fn steps_that_make_a_text_much_longer_are_refused() {
    let piece = serde_json::json!({"SpecialToken": {"id": "a", "type_id": 0}});
    let text = serde_json::json!({"Sequence": {"id": "A", "type_id": 0}});
    let twice = serde_json::json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
    let bytes = json(
        r#"{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}"#,
    );
    for (section, value, expected) in [
        (
            "normalizer",
            charsmap(&u32::MAX.to_le_bytes(), "x"),
            "the charsmap claims a trie of 4294967295 bytes, it has 6",
        ),
        (
            "normalizer",
            charsmap(&400u32.to_le_bytes(), "x"),
            "the charsmap claims a trie of 400 bytes, it has 6",
        ),
        (
            "normalizer",
            charsmap(&4u32.to_le_bytes(), &"x".repeat(65)),
            "the longest text of the charsmap has 65 bytes, the limit is 64",
        ),
        (
            "normalizer",
            json(r#"{"type": "Precompiled", "precompiled_charsmap": "?"}"#),
            "the charsmap is not base64",
        ),
        (
            "normalizer",
            serde_json::json!({"type": "Prepend", "prepend": "a".repeat(10 << 20)}),
            "the text it prepends has 10485760 bytes, the limit is 16",
        ),
        (
            "normalizer",
            serde_json::json!({"prepend": "a".repeat(17)}),
            "the text it prepends has 17 bytes, the limit is 16",
        ),
        (
            "normalizer",
            serde_json::json!({"type": "Replace", "pattern": {"Regex": ""}, "content": "a".repeat(99)}),
            "the text it puts for a byte has 100 bytes, the limit is 17",
        ),
        (
            "normalizer",
            serde_json::json!({"type": "Sequence", "normalizers": vec![&twice; 100]}),
            "it has 201 objects, the limit is 128",
        ),
        (
            "decoder",
            serde_json::json!({"type": "Sequence", "decoders": vec![&twice; 5]}),
            "its replacements make a text more than 16 times as long",
        ),
        (
            "pre_tokenizer",
            serde_json::json!({"type": "Sequence", "pretokenizers": vec![bytes; 31]}),
            "it has 31 byte-level or metaspace cuts, the limit is 3",
        ),
        (
            "post_processor",
            around(&vec![piece.clone(); 1000], 1000),
            "it has 1000000 tokens around a text, the limit is 256",
        ),
        (
            "post_processor",
            around(&[text.clone(), text], 1),
            "its template for a single has 2 texts, the limit is 1",
        ),
    ] {
        let error = with_section(section, &value).unwrap_err().to_string();
        let expected = format!("tokenizer.json is malformed: {section}: {expected}");
        assert_eq!(error, expected);
    }
}

#[test]
fn steps_are_stopped_where_they_make_a_text_too_long_together() {
    let twice = serde_json::json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
    // Steps that are harmless one by one are stopped where they meet a text, be it that of an added token.
    for count in [3, 31] {
        let steps = serde_json::json!({"type": "Sequence", "normalizers": vec![&twice; count]});
        let tokenizer = with_section("normalizer", &steps);
        match tokenizer.and_then(|made| made.encode(&"a".repeat(100), false)) {
            Ok(ids) => assert_eq!((count, ids.len()), (3, 800)),
            Err(error) => assert_eq!(
                (count, error.to_string().as_str()),
                (
                    31,
                    "tokenizer: the normalizer makes a text more than 16 times as long"
                )
            ),
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let mut bits = [0; 4];
        bits[1..=three.len()].copy_from_slice(three);
        let bits = u32::from_be_bytes(bits);
        for letter in 0..=three.len() {
            let value = bits >> (18 - 6 * letter) & 63;
            text.push(char::from(LETTERS[value as usize]));
        }
        text.push_str(&"="[..usize::from(three.len() < 3)].repeat(3 - three.len()));
    }
    text
}
