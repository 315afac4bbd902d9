//! Ids and texts equal those of the reference library.

#![expect(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod shared;

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use text::{GgufVocabulary, Tokenizer};

fn ids(value: &Value) -> Vec<u32> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_u64().unwrap() as u32)
        .collect()
}

fn assert_encodes(tokenizer: &Tokenizer, golden: &Value, entry: &Value) {
    for (index, text) in golden["texts"].as_array().unwrap().iter().enumerate() {
        let text = text.as_str().unwrap();
        let expected = ids(&entry["ids"][index]);
        assert_eq!(
            tokenizer.encode(text, false).unwrap(),
            expected,
            "{}: {text}",
            entry["name"]
        );
        let decoded = entry["decoded"][index].as_str().unwrap();
        assert_eq!(
            tokenizer.decode(&expected, false),
            decoded,
            "{}: {text}",
            entry["name"]
        );
        let decoded = entry["decoded_without_special"][index].as_str().unwrap();
        assert_eq!(
            tokenizer.decode(&expected, true),
            decoded,
            "{}: {text}",
            entry["name"]
        );
    }
}

#[test]
fn tiny_tokenizers_of_every_kind_do_what_the_reference_does() {
    let golden = shared::golden("tokenizers.json");
    for entry in golden["tokenizers"].as_array().unwrap() {
        let file = serde_json::to_vec(&entry["file"]).unwrap();
        let tokenizer = Tokenizer::from_tokenizer_json(&file).unwrap();
        assert_encodes(&tokenizer, &golden, entry);
        for (index, text) in golden["texts"].as_array().unwrap().iter().enumerate() {
            let got = tokenizer.encode(text.as_str().unwrap(), true).unwrap();
            assert_eq!(
                got,
                ids(&entry["special_ids"][index]),
                "{}: {text}",
                entry["name"]
            );
        }
    }
}

/// Texts that tokens stand for best: long tokens again and again, and what normalising makes shorter.
fn dense_texts(tokenizer: &Tokenizer) -> Vec<String> {
    let length = |id: &u32| tokenizer.token_bytes(*id).map_or(0, <[u8]>::len);
    let mut ids: Vec<u32> = (0..tokenizer.vocab_size() as u32).collect();
    ids.sort_by_cached_key(|id| std::cmp::Reverse(length(id)));
    let longest = ids.iter().take(30);
    let mut tokens: Vec<String> = longest.filter_map(|id| tokenizer.token_text(*id)).collect();
    let shrinking = [
        "\u{1fbe}\u{308}\u{301}",
        "\u{1112}\u{1161}\u{11ab}",
        "\u{212a}",
    ];
    tokens.extend(shrinking.map(str::to_owned));
    tokens.extend([" ", "▁", "\n", "=", "Ġ", "é"].map(str::to_owned));
    let long = |token: &String| token.repeat(1 + 2000 / token.len());
    tokens.iter().map(long).collect()
}

fn assert_never_fewer_tokens(tokenizer: &Tokenizer, texts: &[String]) {
    for text in texts {
        let least = tokenizer.least_tokens(text);
        let tokens = tokenizer.encode(text, false).unwrap().len();
        let begin: String = text.chars().take(40).collect();
        assert!(tokens >= least, "{begin}: {tokens} tokens, not {least}");
    }
}

#[test]
fn no_text_has_fewer_tokens_than_its_length_promises() {
    let golden = shared::golden("tokenizers.json");
    let texts = golden["texts"].as_array().unwrap();
    let texts: Vec<String> = texts
        .iter()
        .map(|text| text.as_str().unwrap().to_owned())
        .collect();
    for entry in golden["tokenizers"].as_array().unwrap() {
        let file = serde_json::to_vec(&entry["file"]).unwrap();
        let tokenizer = Tokenizer::from_tokenizer_json(&file).unwrap();
        let promises = !["unigram", "wordpiece"].contains(&entry["name"].as_str().unwrap());
        assert_eq!(
            tokenizer.least_tokens(&"word ".repeat(100)) > 0,
            promises,
            "{}",
            entry["name"]
        );
        assert_never_fewer_tokens(&tokenizer, &texts);
        assert_never_fewer_tokens(&tokenizer, &dense_texts(&tokenizer));
    }
}

#[test]
fn nothing_is_promised_where_text_may_get_lost() {
    let golden = shared::golden("tokenizers.json");
    let file = |name: &str| {
        let entries = golden["tokenizers"].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["name"] == name).unwrap();
        entry["file"].clone()
    };
    let cases = [
        ("smollm_like", "", json!(null), true),
        ("smollm_like", "/normalizer", json!({"type": "NFKC"}), false),
        (
            "smollm_like",
            "/normalizer",
            json!({"type": "Strip", "strip_left": true, "strip_right": true}),
            false,
        ),
        (
            "smollm_like",
            "/normalizer",
            json!({"type": "Replace", "pattern": {"String": "  "}, "content": " "}),
            false,
        ),
        (
            "smollm_like",
            "/normalizer",
            json!({"type": "Replace", "pattern": {"Regex": " +"}, "content": " "}),
            false,
        ),
        (
            "smollm_like",
            "/pre_tokenizer/pretokenizers/0",
            json!({"type": "WhitespaceSplit"}),
            false,
        ),
        (
            "smollm_like",
            "/pre_tokenizer/pretokenizers/0",
            json!({"type": "Split", "pattern": {"String": "a"}, "behavior": "Removed", "invert": false}),
            false,
        ),
        ("smollm_like", "/added_tokens/0/rstrip", json!(true), false),
        ("smollm_like", "/added_tokens/0/lstrip", json!(true), false),
        ("llama_like", "/model/byte_fallback", json!(false), false),
    ];
    for (name, place, value, promises) in cases {
        let mut file = file(name);
        if let Some(changed) = file.pointer_mut(place).filter(|_| !place.is_empty()) {
            *changed = value.clone();
        }
        let tokenizer = Tokenizer::from_tokenizer_json(file.to_string().as_bytes()).unwrap();
        assert_eq!(
            tokenizer.least_tokens(&"word ".repeat(100)) > 0,
            promises,
            "{name}{place} {value}"
        );
    }
}

#[test]
fn texts_that_are_rewritten_twice_have_no_fewer_tokens_than_promised() {
    let mut file: Value = serde_json::from_slice(&shared::tiny_file("smollm_like")).unwrap();
    let model = file["model"].as_object_mut().unwrap();
    model["merges"] = json!([]);
    model.insert("ignore_merges".to_owned(), json!(true));
    let vocabulary = model["vocab"].as_object_mut().unwrap();
    vocabulary.retain(|token, _| token == "Ġ" || !token.contains('Ġ'));
    // Four underlines in the letters of their bytes, and two spaces in the letters of their letters.
    for (id, token) in (1000..).zip(["âĸģ".repeat(4), "ÄłÄł".to_owned()]) {
        vocabulary.insert(token, json!(id));
    }
    let letters = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let underlines =
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": false});
    for (steps, spaces) in [([&underlines, &letters], 4), ([&letters, &letters], 2)] {
        file["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": steps});
        let tokenizer = Tokenizer::from_tokenizer_json(file.to_string().as_bytes()).unwrap();
        let text = " ".repeat(spaces);
        assert_eq!(tokenizer.encode(&text, false).unwrap().len(), 1);
        assert_never_fewer_tokens(&tokenizer, &[text]);
    }
}

#[test]
fn bytes_without_a_token_promise_nothing_and_others_still_do() {
    let golden = shared::golden("tokenizers.json");
    for name in ["smollm_like", "qwen_like"] {
        let entries = golden["tokenizers"].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["name"] == name).unwrap();
        let mut file = entry["file"].clone();
        let vocabulary = file["model"]["vocab"].as_object_mut().unwrap();
        assert!(
            vocabulary.remove("ñ").is_some(),
            "the letter of the byte 0xf1"
        );
        let tokenizer = Tokenizer::from_tokenizer_json(file.to_string().as_bytes()).unwrap();
        assert!(tokenizer.least_tokens(&"word ".repeat(100)) > 0);
        let texts = ["\u{40000}".repeat(100), "\u{40000}word ".repeat(100)];
        assert!(tokenizer.encode(&texts[0], false).unwrap().len() <= 300);
        assert_never_fewer_tokens(&tokenizer, &texts);
        assert_never_fewer_tokens(&tokenizer, &dense_texts(&tokenizer));
    }
}

#[test]
fn a_gguf_vocabulary_gives_the_ids_of_the_tokenizer_it_came_from() {
    let golden = shared::golden("tokenizers.json");
    for (name, pre) in [("qwen_like", "qwen2"), ("smollm_like", "smollm")] {
        let entries = golden["tokenizers"].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["name"] == name).unwrap();
        let tokenizer = Tokenizer::from_gguf(shared::tiny_gguf(name, pre)).unwrap();
        assert_encodes(&tokenizer, &golden, entry);
        assert_eq!((tokenizer.bos(), tokenizer.eos_ids()), (Some(0), &[1][..]));
        assert!(tokenizer.is_special(1) && !tokenizer.is_special(5));
    }
}

#[test]
fn gguf_flags_decide_what_surrounds_a_text() {
    for (add_bos, add_eos, expected) in [
        (Some(true), Some(true), [Some(0), Some(1)]),
        (Some(false), None, [None, None]),
        (None, None, [None, None]),
    ] {
        let vocabulary = GgufVocabulary {
            add_bos,
            add_eos,
            ..shared::tiny_gguf("smollm_like", "smollm")
        };
        let tokenizer = Tokenizer::from_gguf(vocabulary).unwrap();
        let inner = tokenizer.encode("fast birds", false).unwrap();
        let whole: Vec<u32> = expected[0]
            .into_iter()
            .chain(inner)
            .chain(expected[1])
            .collect();
        assert_eq!(tokenizer.encode("fast birds", true).unwrap(), whole);
    }
}

#[test]
fn a_sentence_piece_vocabulary_merges_by_score_and_falls_back_to_bytes() {
    let mut tokens = vec!["<unk>".to_owned(), "<s>".to_owned(), "</s>".to_owned()];
    let mut token_types = vec![2, 3, 3];
    let mut scores = vec![0.0; 3];
    for byte in 0..=255_u8 {
        tokens.push(format!("<0x{byte:02X}>"));
        token_types.push(6);
        scores.push(0.0);
    }
    let pieces = ["▁", "a", "b", "c", "ab", "bc", "▁a", "abc", "▁abc"];
    for (rank, piece) in (0_u8..).zip(pieces) {
        tokens.push(piece.to_owned());
        token_types.push(1);
        scores.push(-f32::from(rank));
    }
    let tokenizer = Tokenizer::from_gguf(GgufVocabulary {
        model: "llama".to_owned(),
        tokens,
        token_types,
        scores,
        bos: Some(1),
        eos: Some(2),
        unk: Some(0),
        ..GgufVocabulary::default()
    })
    .unwrap();
    let table: &[(&str, &[u32], &str)] = &[
        ("abc", &[267], "abc"),
        ("bc ab", &[259, 264, 259, 263], "bc ab"),
        ("é", &[259, 3 + 0xc3, 3 + 0xa9], "é"),
        ("a</s>b", &[265, 2, 259, 261], "a</s> b"),
    ];
    for (text, expected, decoded) in table {
        let ids = tokenizer.encode(text, false).unwrap();
        assert_eq!(ids, *expected, "{text}");
        assert_eq!(tokenizer.decode(&ids, false), *decoded);
    }
    assert_eq!(tokenizer.encode("abc", true).unwrap(), [1, 267]);
    assert_eq!(tokenizer.token_bytes(267), Some(&b" abc"[..]));
    assert_eq!(tokenizer.token_bytes(3 + 0xc3), Some(&[0xc3][..]));
}

#[test]
fn the_configuration_names_special_tokens_and_may_add_them() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("tokenizer.json", &shared::tiny_file("qwen_like"));
    let config = json!({
        "bos_token": "<|start|>", "eos_token": {"content": "<|end|>"}, "add_bos_token": true,
        "tokenizer_class": "LlamaTokenizerFast", "additional_special_tokens": ["<tool>"],
        "added_tokens_decoder": {"422": {"content": "<new>", "special": false}},
    });
    write(
        "tokenizer_config.json",
        &serde_json::to_vec(&config).unwrap(),
    );
    let tokenizer = Tokenizer::from_folder(folder.path()).unwrap();
    assert_eq!((tokenizer.bos(), tokenizer.eos_ids()), (Some(0), &[1][..]));
    assert_eq!(tokenizer.encode("", true).unwrap(), [0]);
    assert_eq!(tokenizer.encode("<new>", false).unwrap(), [422]);
    let tool = tokenizer.token_id("<tool>").unwrap();
    assert!(tokenizer.is_special(tool) && !tokenizer.is_special(422));
    assert_eq!(tokenizer.decode(&[tool, 422], true), "<new>");
    assert_eq!(tokenizer.vocab_size(), 423);
    assert_eq!(tokenizer.token_text(422).as_deref(), Some("<new>"));
}

#[test]
fn a_missing_tokenizer_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = Tokenizer::from_folder(folder.path())
        .unwrap_err()
        .to_string();
    assert!(error.contains("tokenizer.json"), "{error}");
}

#[test]
fn everything_that_is_shared_crosses_threads() {
    fn crosses<T: Send + Sync + 'static>() {}
    crosses::<Tokenizer>();
    crosses::<text::Template>();
    crosses::<text::Detokenizer>();
    crosses::<text::ToolParser>();
    crosses::<text::ReasoningParser>();
}

/// The texts that reference/tokenizer_goldens.py encoded, in its order.
fn given_texts(data: &Path) -> Vec<String> {
    let read = |name: &str| std::fs::read_to_string(data.join(name)).unwrap();
    let lines = |text: String| -> Vec<Value> {
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let mut texts: Vec<Value> = Vec::new();
    let questions = lines(read("gsm8k/test.jsonl"));
    texts.extend(
        questions
            .iter()
            .take(300)
            .map(|row| row["question"].clone()),
    );
    for row in lines(read("sharegpt/mt_bench_question.jsonl")) {
        texts.extend(row["turns"].as_array().unwrap().iter().cloned());
    }
    let rows: Value =
        serde_json::from_str(&read("sharegpt/ShareGPT_V3_filtered_500.json")).unwrap();
    for row in rows.as_array().unwrap().iter().take(300) {
        let turns = row["conversations"].as_array().unwrap();
        texts.extend(turns.iter().map(|turn| turn["value"].clone()));
    }
    texts
        .iter()
        .map(|text| text.as_str().unwrap().to_owned())
        .collect()
}

fn assert_given_tokenizer_agrees(name: &str) {
    let Some(data) = shared::material("data") else {
        return;
    };
    let golden = shared::golden("given_tokenizers.json");
    let output = Command::new("gzip")
        .arg("-dc")
        .arg(data.join(name))
        .output()
        .unwrap();
    let tokenizer = Tokenizer::from_tokenizer_json(&output.stdout).unwrap();
    let texts = given_texts(&data);
    assert_eq!(golden["texts"], texts.len());
    // This one leaves out what its pattern does not match.
    let promises = !name.ends_with("dolma2.json.gz");
    assert_eq!(
        tokenizer.least_tokens(&"word ".repeat(100)) > 0,
        promises,
        "{name}"
    );
    assert_never_fewer_tokens(&tokenizer, &dense_texts(&tokenizer));
    let mut digest = Sha256::new();
    for text in texts {
        let mut line = String::new();
        for id in tokenizer.encode(&text, false).unwrap() {
            write!(line, "{}{id}", if line.is_empty() { "" } else { " " }).unwrap();
        }
        line.push('\n');
        digest.update(&line);
    }
    let mut hash = String::new();
    for byte in digest.finalize() {
        write!(hash, "{byte:02x}").unwrap();
    }
    assert_eq!(golden["hashes"][name], hash, "{name}");
}

#[test]
fn given_texts_have_the_reference_ids_in_qwen3() {
    assert_given_tokenizer_agrees("tokenizers/qwen3/tokenizer.json.gz");
}

#[test]
fn given_texts_have_the_reference_ids_in_llama3() {
    assert_given_tokenizer_agrees("tokenizers/llama3/tokenizer.json.gz");
}

#[test]
fn given_texts_have_the_reference_ids_in_deepseek_v3() {
    assert_given_tokenizer_agrees("tokenizers/deepseek_v3/tokenizer.json.gz");
}

#[test]
fn given_texts_have_the_reference_ids_in_gpt_oss() {
    assert_given_tokenizer_agrees("tokenizers/gptoss/tokenizer.json.gz");
}

#[test]
fn given_texts_have_the_reference_ids_in_qwen2_5() {
    assert_given_tokenizer_agrees("tokenizers/qwen2_5/tokenizer.json.gz");
}

#[test]
fn given_texts_have_the_reference_ids_in_olmo() {
    assert_given_tokenizer_agrees("tokenizers/olmo/allenai_dolma2.json.gz");
    assert_given_tokenizer_agrees("tokenizers/olmo/allenai_gpt-neox-olmo-dolma-v1_5.json.gz");
}
