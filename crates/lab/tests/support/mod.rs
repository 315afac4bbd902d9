//! Running the laboratory as a person does, on servers made for it.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use lab::run::Run;
use lab::store::Store;

/// A program of the examples folder, built along with the tests.
pub(crate) fn example(name: &str) -> String {
    let own = std::env::current_exe().expect("a test knows its own path");
    let profile = own
        .ancestors()
        .nth(2)
        .expect("a test lies two folders deep");
    // tests may be built in another folder than programs are put into (`build.build-dir`)
    let target = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target")
        .join(profile.file_name().expect("a profile has a name"));
    let places = [
        target.join("examples").join(name),
        profile.join("examples").join(name),
    ];
    let path = places.iter().find(|path| path.exists());
    let path = path.unwrap_or_else(|| panic!("{name} is missing: build with --examples"));
    path.display().to_string()
}

/// The tokenizer of the benchmark's own tests.
pub(crate) fn tokenizer() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/tests/data/tokenizer");
    path.display().to_string()
}

/// A command line that starts a server which answers by script.
pub(crate) fn scripted(more: &str) -> String {
    format!(
        "{} --port {{port}} --model {} {more}",
        example("fake_subject"),
        tokenizer()
    )
}

/// A short load of our own client.
pub(crate) const LOAD: &str = "--backend sglang --dataset-name random-ids --random-input-len 16 \
    --random-output-len 8 --random-range-ratio 1 --max-concurrency 4 --disable-tqdm";

/// A plan, a store and whoever runs them.
pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("there is room for a folder"),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("there is room for a file");
    }

    fn command(&self, line: &[&str]) -> Command {
        let mut command = Command::new(example("lab"));
        command
            .args(line)
            .args(["--store", "store"])
            .current_dir(self.folder.path());
        command.stdin(Stdio::null());
        command
    }

    /// Runs `lab` with these words: its exit code, what it printed, what it warned of.
    pub(crate) fn lab(&self, line: &[&str]) -> (i32, String, String) {
        Self::parts(&self.command(line).output().expect("lab starts"))
    }

    /// Runs `lab` where programs of a folder go before all others.
    pub(crate) fn lab_with(&self, folder: &str, line: &[&str]) -> (i32, String, String) {
        let mut command = Command::new("sh");
        command
            .args(["-c", "PATH=$0:$PATH exec \"$@\""])
            .arg(self.path(folder))
            .arg(example("lab"))
            .args(line)
            .args(["--store", "store"])
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        Self::parts(&command.output().expect("sh starts"))
    }

    fn parts(output: &Output) -> (i32, String, String) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code().unwrap_or(-1),
            text(&output.stdout),
            text(&output.stderr),
        )
    }

    /// Starts `lab` and goes on.
    pub(crate) fn begin(&self, line: &[&str]) -> Child {
        let mut command = self.command(line);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("lab starts")
    }

    /// The runs of the store.
    pub(crate) fn runs(&self) -> Vec<Run> {
        let store = Store::open(&self.path("store")).expect("the store opens");
        store.runs().expect("the store is whole")
    }

    /// How many runs have their folder.
    pub(crate) fn count(&self) -> usize {
        let entries = fs::read_dir(self.path("store/runs"))
            .into_iter()
            .flatten()
            .flatten();
        entries
            .filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'))
            .count()
    }
}

/// Waits until something holds; the test fails when it takes too long.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_mins(1);
    while !holds() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Command lines of living processes that belong to this bench.
pub(crate) fn leftovers(bench: &Bench) -> Vec<String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let marks = fs::read_dir(bench.path("store/sessions"))
        .into_iter()
        .flatten()
        .flatten();
    let marks: Vec<String> = marks
        .map(|entry| {
            format!(
                "PEREGRINE_LAB_MARK={}/",
                entry.file_name().to_string_lossy()
            )
        })
        .collect();
    let found = entries.filter_map(|entry| {
        let environment = fs::read(entry.path().join("environ")).ok()?;
        let environment = String::from_utf8_lossy(&environment).into_owned();
        let ours = marks.iter().any(|mark| environment.contains(mark.as_str()));
        let words = fs::read(entry.path().join("cmdline")).ok()?;
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        (ours && !words.is_empty()).then_some(words)
    });
    found.collect()
}
