//! What the tests of this crate share: goldens, and the material given to the project.

#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "only tests use it"
)]

use std::path::{Path, PathBuf};

use serde_json::Value;
use text::{GgufVocabulary, Tokenizer};

/// A folder or file of the shared material, or a plain line that it is missing.
pub(crate) fn material(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared")
        .join(name);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: {name} is not in the shared material");
    None
}

/// A golden file of this crate.
pub(crate) fn golden(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/goldens")
        .join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// One of the tiny tokenizers: its tokenizer.json.
pub(crate) fn tiny_file(name: &str) -> Vec<u8> {
    let golden = golden("tokenizers.json");
    let entries = golden["tokenizers"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["name"] == name).unwrap();
    serde_json::to_vec(&entry["file"]).unwrap()
}

/// One of the tiny tokenizers.
pub(crate) fn tiny(name: &str) -> Tokenizer {
    Tokenizer::from_tokenizer_json(&tiny_file(name)).unwrap()
}

/// The vocabulary of a tiny byte-level tokenizer as a GGUF file would hold it.
pub(crate) fn tiny_gguf(name: &str, pre: &str) -> GgufVocabulary {
    let file: Value = serde_json::from_slice(&tiny_file(name)).unwrap();
    let vocab = file["model"]["vocab"].as_object().unwrap();
    let added = file["added_tokens"].as_array().unwrap();
    let mut tokens = vec![String::new(); vocab.len() + added.len() - 3];
    let mut token_types = vec![1; tokens.len()];
    for (token, id) in vocab {
        tokens[id.as_u64().unwrap() as usize].clone_from(token);
    }
    for token in added {
        let id = token["id"].as_u64().unwrap() as usize;
        token["content"]
            .as_str()
            .unwrap()
            .clone_into(&mut tokens[id]);
        token_types[id] = if token["special"] == true { 3 } else { 4 };
    }
    let merges = file["model"]["merges"].as_array().unwrap();
    let half = |merge: &Value, index: usize| merge[index].as_str().unwrap().to_owned();
    GgufVocabulary {
        model: "gpt2".to_owned(),
        pre: Some(pre.to_owned()),
        scores: Vec::new(),
        merges: merges
            .iter()
            .map(|merge| half(merge, 0) + " " + &half(merge, 1))
            .collect(),
        tokens,
        token_types,
        bos: Some(0),
        eos: Some(1),
        unk: Some(2),
        add_bos: Some(false),
        ..GgufVocabulary::default()
    }
}

/// Numbers without a pattern, the same in every run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}
