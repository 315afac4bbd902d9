use std::path::Path;

use checkpoint::{Checkpoint, CheckpointError, WeightSource, open};
use tempfile::TempDir;

use crate::files::safetensors;

const INDEX: &str = "model.safetensors.index.json";

fn one_tensor(name: &str) -> Vec<u8> {
    safetensors(
        &format!(r#"{{"{name}":{{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}}}"#),
        8,
    )
}

/// A folder with two good shards and this index.
fn folder(weight_map: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "one.safetensors", &one_tensor("a"));
    write(folder.path(), "two.safetensors", &one_tensor("b"));
    write(
        folder.path(),
        INDEX,
        format!(r#"{{"metadata":{{}},"weight_map":{weight_map}}}"#).as_bytes(),
    );
    folder
}

fn write(folder: &Path, name: &str, bytes: &[u8]) {
    std::fs::write(folder.join(name), bytes).expect("a written file");
}

/// The error and its cause, with the folder's own path taken out.
fn refusal(folder: &Path) -> String {
    let error = open(folder).expect_err("should be refused");
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    let text = [Some(error.to_string()), cause]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(": ");
    text.replace(&format!("{}/", folder.display()), "")
}

#[test]
fn two_shards_are_read_as_one_checkpoint() {
    let folder = folder(r#"{"a":"one.safetensors","b":"two.safetensors"}"#);
    let Ok(Checkpoint::Safetensors(source)) = open(folder.path()) else {
        panic!("not opened")
    };
    let names: Vec<_> = source
        .tensors()
        .iter()
        .map(|tensor| tensor.name.as_str())
        .collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(source.bytes("b").expect("present"), [1; 8]);
    assert!(matches!(source.bytes("c"), Err(CheckpointError::NoTensor { name }) if name == "c"));
}

#[test]
fn tensors_are_read_in_pieces_and_a_file_that_became_shorter_is_named() {
    let folder = folder(r#"{"a":"one.safetensors","b":"two.safetensors"}"#);
    let checkpoint = open(folder.path()).expect("two good shards");
    let source = checkpoint.weights();
    let tensor = source.find("b").expect("present");
    let (whole, mut piece) = (source.bytes("b").expect("present"), [0; 3]);
    source.read(tensor, 4, &mut piece).expect("bytes in range");
    assert_eq!(piece, whole[4..7]);
    let path = folder.path().join("two.safetensors");
    let file = std::fs::File::options().write(true).open(&path);
    let length = file.and_then(|file| file.set_len(tensor.range.start as u64 + 5));
    length.expect("a shorter file");
    let error = source.read(tensor, 4, &mut piece).expect_err("too short");
    assert_eq!(
        error.to_string(),
        format!("cannot read tensor b in {}", path.display())
    );
}

#[test]
fn an_index_that_does_not_fit_its_files_is_refused() {
    let outside = |name: &str| {
        format!(
            "{INDEX} is not a usable safetensors file: the index names {name:?}, \
             which is not the name of a .safetensors file beside it"
        )
    };
    for (weight_map, message) in [
        (r#"{"a":"../../etc/passwd"}"#, outside("../../etc/passwd")),
        (
            r#"{"a":"/dev/zero.safetensors"}"#,
            outside("/dev/zero.safetensors"),
        ),
        (
            r#"{"a":"../one.safetensors"}"#,
            outside("../one.safetensors"),
        ),
        (r#"{"a":"./one.safetensors"}"#, outside("./one.safetensors")),
        (
            r#"{"a":"deep/one.safetensors"}"#,
            outside("deep/one.safetensors"),
        ),
        (r#"{"a":".."}"#, outside("..")),
        (r#"{"a":""}"#, outside("")),
        (
            r#"{"a":"model.safetensors.index.json"}"#,
            outside("model.safetensors.index.json"),
        ),
        (
            r#"{"a":"three.safetensors"}"#,
            "cannot read three.safetensors: No such file or directory (os error 2)".into(),
        ),
        (
            r#"{"a":"two.safetensors"}"#,
            format!(
                "{INDEX} is not a usable safetensors file: \
                 the index promises tensor a in two.safetensors, which does not have it"
            ),
        ),
        (
            r#"{"a":"two.safetensors","b":"one.safetensors"}"#,
            format!(
                "{INDEX} is not a usable safetensors file: \
                 the index promises tensor b in one.safetensors, which does not have it"
            ),
        ),
        (
            r#"{"a":"one.safetensors","a":"two.safetensors"}"#,
            format!("{INDEX} is not a usable safetensors file: the index is broken"),
        ),
        (
            r#"["a"]"#,
            format!("{INDEX} is not a usable safetensors file: the index is broken"),
        ),
        (
            r#"{"a":1}"#,
            format!("{INDEX} is not a usable safetensors file: the index is broken"),
        ),
    ] {
        assert_eq!(refusal(folder(weight_map).path()), message, "{weight_map}");
    }
}

#[test]
fn one_name_in_two_shards_is_refused() {
    let folder = folder(r#"{"a":"one.safetensors","b":"two.safetensors"}"#);
    write(folder.path(), "two.safetensors", &one_tensor("a"));
    assert_eq!(
        refusal(folder.path()),
        "two.safetensors is not a usable safetensors file: tensor a is both in one.safetensors and in two.safetensors"
    );
}

#[cfg(unix)]
#[test]
fn links_that_go_round_in_circles_and_pipes_are_refused() {
    let folder = folder(r#"{"a":"loop.safetensors"}"#);
    let link = folder.path().join("loop.safetensors");
    std::os::unix::fs::symlink(&link, &link).expect("a link");
    assert!(refusal(folder.path()).starts_with("cannot read loop.safetensors: "));

    let folder = self::folder(r#"{"a":"null.safetensors"}"#);
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("null.safetensors"))
        .expect("a link");
    assert_eq!(
        refusal(folder.path()),
        "null.safetensors is not a regular file"
    );
}

#[test]
fn a_file_that_is_no_model_is_recognised() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, content) in [
        ("README.md", &b"# Read me first, please"[..]),
        ("empty", b""),
        ("short", b"GGU"),
        (
            "weights.bin",
            &[0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9],
        ),
    ] {
        write(folder.path(), name, content);
        let error = open(&folder.path().join(name)).expect_err("no model");
        let expected = format!("{name} is no model: it is neither a GGUF nor a safetensors file");
        assert!(error.to_string().ends_with(&expected), "{error}");
    }
    write(folder.path(), "unnamed", &one_tensor("a"));
    let opened = open(&folder.path().join("unnamed"));
    assert!(matches!(opened, Ok(Checkpoint::Safetensors(_))));
}

#[test]
fn a_folder_must_say_which_model_is_meant() {
    let empty = tempfile::tempdir().expect("a temporary folder");
    assert!(refusal(empty.path()).ends_with("holds neither safetensors nor GGUF weights"));
    write(empty.path(), "a.gguf", b"GGUF");
    assert_eq!(
        refusal(empty.path()),
        "a.gguf is not a usable GGUF file: it ends after 4 bytes, inside the version"
    );
    write(empty.path(), "b.gguf", b"GGUF");
    assert!(
        refusal(empty.path()).ends_with("holds several models, name one of them: a.gguf, b.gguf")
    );
    write(empty.path(), "model.safetensors", &one_tensor("a"));
    assert!(matches!(open(empty.path()), Ok(Checkpoint::Safetensors(_))));
}
