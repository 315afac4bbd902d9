//! Every dataset against what the reference makes of the same files, seeds and tokenizer.
#![expect(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

use bench::dataset::{Dataset, Prompt};
use bench::random::Streams;
use bench::serving::Options;
use bench::vocabulary::Vocabulary;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
struct Golden {
    arguments: Vec<String>,
    notes: Vec<String>,
    rows: Vec<(String, u64, u64)>,
    images: Vec<Vec<String>>,
}

fn data() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

fn load(arguments: &[String], release: &str, vocabulary: &Vocabulary) -> Dataset {
    let mut arguments = arguments.to_vec();
    arguments.extend(["--reference".to_owned(), release.to_owned()]);
    let options = Options::parse(&arguments).unwrap();
    let path = options
        .given
        .text("dataset-path")
        .filter(|path| !path.is_empty());
    let path = path.map(|path| data().join(path));
    let mut streams = Streams::seeded(options.seed().unwrap());
    let source = options.source().unwrap();
    source
        .load(path.as_deref(), vocabulary, &mut streams, options.release)
        .unwrap()
}

/// JSON with a blank after commas and colons, letters as they are.
fn spaced(value: &Value) -> String {
    match value {
        Value::Array(items) => format!(
            "[{}]",
            items.iter().map(spaced).collect::<Vec<_>>().join(", ")
        ),
        Value::Object(map) => {
            let pair = |(key, item): (&String, &Value)| {
                format!("{}: {}", Value::from(key.as_str()), spaced(item))
            };
            format!(
                "{{{}}}",
                map.iter().map(pair).collect::<Vec<_>>().join(", ")
            )
        }
        other => other.to_string(),
    }
}

/// The first digits of a text's digest.
fn digest_of(text: &str) -> String {
    let bytes: [u8; 8] = Sha256::digest(text.as_bytes())[..8].try_into().unwrap();
    format!("{:016x}", u64::from_be_bytes(bytes))
}

/// The digest of a prompt in the form in which the reference keeps it.
fn digest(prompt: &Prompt, shared_prefix: bool) -> String {
    let text = match prompt {
        Prompt::Text(text) => text.clone(),
        Prompt::Tokens(ids) => spaced(&Value::from(ids.clone())),
        Prompt::Messages(messages) => spaced(&Value::from(messages.clone())),
        Prompt::Turns(turns) if shared_prefix => {
            let texts: Vec<Value> = turns
                .iter()
                .map(|turn| turn[0]["content"].clone())
                .collect();
            spaced(&Value::from(texts))
        }
        Prompt::Turns(turns) => {
            let turns: Vec<Value> = turns.iter().map(|turn| Value::from(turn.clone())).collect();
            spaced(&Value::from(turns))
        }
    };
    digest_of(&text)
}

fn check(release: &str) -> usize {
    let vocabulary = Vocabulary::from_path(data().join("tokenizer").to_str().unwrap()).unwrap();
    let golden = std::fs::read(data().join(format!("datasets-{release}.json"))).unwrap();
    let golden: BTreeMap<String, BTreeMap<String, Golden>> =
        serde_json::from_slice(&golden).unwrap();
    let mut checked = 0;
    for (seed, cases) in &golden {
        for (case, golden) in cases {
            let dataset = load(&golden.arguments, release, &vocabulary);
            let rows: Vec<(String, u64, u64)> = dataset
                .rows
                .iter()
                .map(|row| {
                    let digest = digest(&row.prompt, case.starts_with("shared-prefix"));
                    (digest, row.asked.prompt_tokens, row.asked.output_tokens)
                })
                .collect();
            // Traces of agents keep names beside role and content; only those two are ever sent.
            if case == "agentic-trace" {
                let sizes = |rows: &[(String, u64, u64)]| -> Vec<(u64, u64)> {
                    rows.iter()
                        .map(|(_, prompt, output)| (*prompt, *output))
                        .collect()
                };
                assert_eq!(
                    sizes(&rows),
                    sizes(&golden.rows),
                    "{release} seed {seed} {case}"
                );
            } else {
                assert_eq!(rows, golden.rows, "{release} seed {seed} {case}");
            }
            let images: Vec<Vec<String>> = dataset
                .rows
                .iter()
                .map(|row| row.images.iter().map(|image| digest_of(image)).collect())
                .collect();
            assert_eq!(images, golden.images, "{release} seed {seed} {case}");
            let notes: Vec<&str> = dataset
                .notes
                .iter()
                .flat_map(|note| note.split('\n'))
                .collect();
            assert_eq!(notes, golden.notes, "{release} seed {seed} {case}");
            checked += rows.len();
        }
    }
    checked
}

#[test]
fn prompts_are_those_of_the_reference_bit_for_bit() {
    assert!(check("0.5.6.post2") > 150);
    assert!(check("0.5.23") > 300);
}

#[test]
fn a_dataset_that_is_missing_or_broken_is_named_with_its_line() {
    let vocabulary = Vocabulary::from_path(data().join("tokenizer").to_str().unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let broken = write("broken.json", "[\n {\"conversations\": []},\n oops\n]");
    let trace = write(
        "trace.jsonl",
        "{\"timestamp\": 1}\n\n{\"timestamp\": \"x\"}\n",
    );
    let claims = write(
        "claims.jsonl",
        "{\"timestamp\": 1, \"output_length\": 1000000000000}\n",
    );
    let turns = write(
        "turns.json",
        "[{\"conversations\": [{\"value\": \"a\"}, {\"text\": \"b\"}]}]",
    );
    let complaint = |name: &str, path: Option<&Path>| {
        let arguments = ["--dataset-name".to_owned(), name.to_owned()];
        let options = Options::parse(&arguments).unwrap();
        let mut streams = Streams::seeded(1);
        let source = options.source().unwrap();
        source
            .load(path, &vocabulary, &mut streams, options.release)
            .unwrap_err()
            .to_string()
    };
    assert!(complaint("sharegpt", None).contains("--dataset-path"));
    assert!(complaint("sharegpt", Some(Path::new("/nowhere/x.json"))).contains("/nowhere/x.json"));
    assert!(complaint("sharegpt", Some(folder.path())).contains("folder"));
    assert!(complaint("random", Some(&broken)).contains("line 3"));
    assert!(complaint("mooncake", Some(&trace)).contains("line 3: invalid type"));
    assert!(complaint("mooncake", Some(&claims)).contains("line 1: output_length 1000000000000"));
    assert!(complaint("sharegpt", Some(&turns)).contains("entry 0: a turn has no value"));
}
