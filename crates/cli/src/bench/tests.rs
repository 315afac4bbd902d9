use super::*;

#[test]
fn the_hash_of_a_gguf_tokenizer_is_of_its_content_alone() {
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/goldens");
    let original = goldens.join("gguf-llama-q4_1/model.gguf");
    let hash = fingerprint(&original).unwrap();
    assert_eq!(hash.len(), 64, "{hash}");
    assert!(
        hash.bytes().all(|digit| digit.is_ascii_hexdigit()),
        "{hash}"
    );

    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.gguf");
    let mut bytes = std::fs::read(&original).unwrap();
    std::fs::write(&copy, &bytes).unwrap();
    assert_eq!(
        fingerprint(&copy).unwrap(),
        hash,
        "a copy is the same tokenizer"
    );

    let end = bytes.len() - 1;
    bytes[end] ^= 1;
    std::fs::write(&copy, &bytes).unwrap();
    assert_eq!(
        fingerprint(&copy).unwrap(),
        hash,
        "a weight is no part of it"
    );

    let name = b"tokenizer.ggml.tokens";
    let key = bytes.windows(name.len()).position(|part| part == name);
    // after the key: its type, the elements' type, their count, the first one's length
    let first = key.unwrap() + name.len() + 4 + 4 + 8 + 8;
    bytes[first] ^= 1;
    std::fs::write(&copy, &bytes).unwrap();
    assert_ne!(fingerprint(&copy).unwrap(), hash, "a token is");
}

#[test]
fn advice_names_an_option_that_the_benchmark_has() {
    let words = advice("no model here; give that folder as --model-path");
    assert_eq!(words, "no model here; give that folder as --tokenizer");
}
