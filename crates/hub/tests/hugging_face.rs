//! The hub source against a stand-in hub: whole models, broken transfers, refusals, no network.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod stand_in;

use std::fs;
use std::path::Path;

use hub::source::hugging_face::HuggingFace;
use hub::source::pip::Pythons;
use hub::{HubError, LocalModel, Part, Progress, Reference, Sources, Store, obtain};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use stand_in::{Fault, HubFile, StandIn};

fn large(content: &[u8]) -> HubFile {
    use std::fmt::Write as _;
    let etag = Sha256::digest(content)
        .iter()
        .fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
    HubFile {
        content: content.to_vec(),
        etag,
    }
}

/// `{}` as git names it.
fn config() -> HubFile {
    HubFile {
        content: b"{}".to_vec(),
        etag: "9e26dfeeb6e641a33dae4961196235bdb965b21b".into(),
    }
}

fn weights() -> Vec<u8> {
    (0..5000_u32).flat_map(u32::to_le_bytes).collect()
}

/// A machine with an empty store and an empty cache.
struct Machine {
    folder: TempDir,
    token: Option<String>,
    offline: bool,
    again: bool,
    part: Part,
    heard: Heard,
}

#[derive(Default)]
struct Heard(Vec<String>);

impl Progress for Heard {
    fn start(&mut self, what: &str, bytes: Option<u64>) {
        self.0.push(format!("start {what} {}", bytes.unwrap_or(0)));
    }
    fn advance(&mut self, done: u64) {
        self.0.push(format!("at {done}"));
    }
    fn finish(&mut self) {
        self.0.push("finish".into());
    }
    fn note(&mut self, message: &str) {
        self.0.push(message.to_owned());
    }
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            folder,
            token: None,
            offline: false,
            again: false,
            part: Part::Whole,
            heard: Heard::default(),
        }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn pull_from(&mut self, endpoint: &str, reference: &str) -> Result<LocalModel, HubError> {
        let hugging_face = HuggingFace {
            endpoint: Some(endpoint.to_owned()),
            cache: self.path("cache"),
            token: self.token.clone(),
            offline: self.offline,
        };
        let sources = Sources {
            hugging_face,
            pythons: Pythons::default(),
            part: self.part,
            again: self.again,
        };
        let store = Store::at(self.path("models"));
        obtain(
            &store,
            &sources,
            &Reference::parse(reference)?,
            &mut self.heard,
        )
    }

    fn pull(&mut self, hub: &StandIn) -> Result<LocalModel, HubError> {
        self.pull_from(&hub.endpoint, "maker/tiny")
    }

    fn store_is_empty(&self) -> bool {
        !self.path("models").join("maker--tiny").exists()
    }
}

fn tiny_hub() -> StandIn {
    StandIn::new(&[
        ("README.md", large(b"read me")),
        ("config.json", config()),
        ("model.safetensors", large(&weights())),
    ])
}

fn transfers(hub: &StandIn) -> Vec<String> {
    let prefix = "/maker/tiny/resolve/main/model.safetensors";
    hub.requests()
        .into_iter()
        .filter_map(|path| path.strip_prefix(prefix).map(str::to_owned))
        .collect()
}

fn assert_whole(model: &LocalModel) {
    assert_eq!(model.name, "maker/tiny");
    assert_eq!(fs::read(model.path.join("config.json")).unwrap(), b"{}");
    assert_eq!(
        fs::read(model.path.join("model.safetensors")).unwrap(),
        weights()
    );
    assert!(!model.path.join("README.md").exists());
}

#[test]
fn a_model_arrives_whole_and_is_not_asked_for_twice() {
    let (hub, mut machine) = (tiny_hub(), Machine::new());
    let model = machine.pull(&hub).unwrap();
    assert_whole(&model);
    assert!(
        machine
            .heard
            .0
            .contains(&"start model.safetensors 20000".to_owned())
    );
    let asked = hub.requests().len();
    assert_eq!(machine.pull(&hub).unwrap(), model);
    assert_eq!(hub.requests().len(), asked);
    machine.again = true;
    assert_whole(&machine.pull(&hub).unwrap());
    assert_eq!(transfers(&hub).len(), 1, "the cache already has the bytes");
    fs::remove_dir_all(machine.path("cache")).unwrap();
    assert_whole(&model);
}

#[test]
fn a_chosen_gguf_is_a_model_by_itself() {
    let hub = StandIn::new(&[
        ("a-Q4_0.gguf", large(b"four")),
        ("a-Q8_0.gguf", large(b"eight")),
    ]);
    let mut machine = Machine::new();
    let model = machine.pull_from(&hub.endpoint, "maker/tiny:q8_0").unwrap();
    assert_eq!(fs::read(&model.path).unwrap(), b"eight");
    assert_eq!(model.path.file_name().unwrap(), "a-Q8_0.gguf");
    let error = machine.pull(&hub).unwrap_err();
    assert!(matches!(error, HubError::ChooseOne { .. }), "{error}");
}

#[test]
fn the_text_side_comes_without_weights_and_is_not_asked_for_beside_a_whole_model() {
    let tokenizer = large(b"{\"version\": \"1.0\"}");
    let hub = StandIn::new(&[
        ("config.json", config()),
        ("tokenizer.json", tokenizer),
        ("model.safetensors", large(&weights())),
    ]);
    let mut machine = Machine::new();
    machine.part = Part::Text;
    let model = machine.pull(&hub).unwrap();
    assert!(model.path.join("tokenizer.json").exists());
    assert!(!model.path.join("model.safetensors").exists());
    machine.part = Part::Whole;
    let whole = machine.pull(&hub).unwrap();
    assert!(whole.path.join("model.safetensors").exists());
    machine.part = Part::Text;
    assert_eq!(machine.pull(&hub).unwrap(), whole);
}

#[test]
fn a_broken_transfer_goes_on_where_it_stopped() {
    let (hub, mut machine) = (tiny_hub(), Machine::new());
    hub.fault("model.safetensors", Fault::BreakAfter(7000));
    hub.fault("model.safetensors", Fault::BreakAfter(3000));
    assert_whole(&machine.pull(&hub).unwrap());
    assert_eq!(transfers(&hub), [" 0-", " 7000-", " 10000-"]);
}

#[test]
fn a_transfer_that_gets_no_further_ends_and_the_next_pull_resumes() {
    let (hub, mut machine) = (tiny_hub(), Machine::new());
    hub.fault("model.safetensors", Fault::BreakAfter(7000));
    hub.fault("model.safetensors", Fault::BreakAfter(0));
    machine.pull(&hub).unwrap_err();
    assert!(machine.store_is_empty());
    assert_whole(&machine.pull(&hub).unwrap());
    assert_eq!(transfers(&hub), [" 0-", " 7000-", " 7000-"]);
}

#[test]
fn a_server_that_ignores_ranges_makes_the_transfer_start_anew() {
    let (hub, mut machine) = (tiny_hub(), Machine::new());
    hub.fault("model.safetensors", Fault::BreakAfter(7000));
    hub.fault("model.safetensors", Fault::IgnoreRange);
    assert_whole(&machine.pull(&hub).unwrap());
    assert_eq!(transfers(&hub), [" 0-", " 7000-"]);
}

#[test]
fn wrong_bytes_are_fetched_once_more_and_then_refused() {
    let (hub, mut machine) = (tiny_hub(), Machine::new());
    hub.fault("model.safetensors", Fault::Garble);
    assert_whole(&machine.pull(&hub).unwrap());
    assert_eq!(transfers(&hub).len(), 2);

    let (hub, mut machine) = (tiny_hub(), Machine::new());
    hub.fault("model.safetensors", Fault::Garble);
    hub.fault("model.safetensors", Fault::Garble);
    let error = machine.pull(&hub).unwrap_err();
    assert!(matches!(error, HubError::HashMismatch { .. }), "{error}");
    assert!(machine.store_is_empty());
    assert_whole(&machine.pull(&hub).unwrap());
}

#[test]
fn a_gated_model_needs_the_token() {
    let (hub, mut machine) = (tiny_hub(), Machine::new());
    hub.require_token("secret");
    let error = machine.pull(&hub).unwrap_err();
    assert!(
        matches!(error, HubError::Refused { status: 401, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("HF_TOKEN"));
    machine.token = Some("secret".into());
    assert_whole(&machine.pull(&hub).unwrap());
}

#[test]
fn a_token_file_beside_the_cache_is_used() {
    let (hub, mut machine) = (tiny_hub(), Machine::new());
    hub.require_token("secret");
    fs::write(machine.path("token"), "secret\n").unwrap();
    assert_whole(&machine.pull(&hub).unwrap());
}

const WEIGHTS: &str = "/maker/tiny/resolve/main/model.safetensors";

#[test]
fn the_token_stays_with_the_hub_when_a_file_lies_elsewhere() {
    let (hub, elsewhere, mut machine) = (tiny_hub(), tiny_hub(), Machine::new());
    hub.require_token("secret");
    machine.token = Some("secret".into());
    // the hub says what the hash is; its redirect carries no hash here, so another host's word must not count
    hub.redirect(WEIGHTS, &format!("{}{WEIGHTS}", elsewhere.endpoint));
    let error = machine.pull(&hub).unwrap_err();
    assert!(
        error.to_string().contains("no hash for model.safetensors"),
        "{error}"
    );
    assert_eq!(
        elsewhere.tokens_seen(),
        [None],
        "for the size, without the token"
    );
    assert!(
        hub.tokens_seen()
            .iter()
            .all(|token| token.as_deref() == Some("secret"))
    );
}

#[test]
fn a_moved_repository_is_followed_on_the_hub_with_the_token() {
    let (hub, mut machine) = (tiny_hub(), Machine::new());
    hub.require_token("secret");
    machine.token = Some("secret".into());
    hub.redirect(
        "/maker/old/resolve/main/config.json",
        "/maker/tiny/resolve/main/config.json",
    );
    hub.redirect("/maker/old/resolve/main/model.safetensors", WEIGHTS);
    hub.redirect(
        "/api/models/maker/old/revision/main",
        "/api/models/maker/tiny/revision/main",
    );
    let model = machine.pull_from(&hub.endpoint, "maker/old").unwrap();
    assert_eq!(
        fs::read(model.path.join("model.safetensors")).unwrap(),
        weights()
    );
}

#[test]
fn redirects_in_a_circle_end() {
    let (hub, mut machine) = (tiny_hub(), Machine::new());
    hub.redirect(WEIGHTS, WEIGHTS);
    let error = machine.pull(&hub).unwrap_err();
    assert!(
        error.to_string().contains("more than 8 redirects"),
        "{error}"
    );
}

#[test]
fn a_full_disk_is_not_taken_for_a_broken_network() {
    let (hub, mut machine) = (tiny_hub(), Machine::new());
    let blobs = machine.path("cache/models--maker--tiny/blobs");
    fs::create_dir_all(&blobs).unwrap();
    let part = blobs.join(format!("{}.part", large(&weights()).etag));
    std::os::unix::fs::symlink("/dev/full", part).unwrap();
    let error = machine.pull(&hub).unwrap_err();
    assert!(matches!(error, HubError::DiskFull { .. }), "{error}");
    assert!(
        error.to_string().contains("no space left") && error.to_string().contains("--model-store")
    );
    assert_eq!(transfers(&hub), [" 0-"], "it is not tried again");
}

#[test]
fn an_unknown_model_is_told_from_an_unreachable_hub() {
    let (hub, mut machine) = (tiny_hub(), Machine::new());
    let error = machine.pull_from(&hub.endpoint, "maker/other").unwrap_err();
    assert!(matches!(error, HubError::NotFound { .. }), "{error}");
    let error = machine
        .pull_from("http://127.0.0.1:1", "maker/tiny")
        .unwrap_err();
    assert!(matches!(error, HubError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("--model-path"), "{error}");
    machine.offline = true;
    let error = machine.pull(&hub).unwrap_err();
    assert!(matches!(error, HubError::Offline { .. }), "{error}");
}

#[test]
fn without_a_network_the_cache_of_other_tools_is_enough() {
    let (hub, mut machine) = (tiny_hub(), Machine::new());
    machine.pull(&hub).unwrap();
    fs::remove_dir_all(machine.path("models")).unwrap();
    machine.offline = true;
    assert_whole(
        &machine
            .pull_from("http://127.0.0.1:1", "maker/tiny")
            .unwrap(),
    );

    fs::remove_dir_all(machine.path("models")).unwrap();
    let weights = snapshot_file(&machine.path("cache"), "model.safetensors");
    fs::write(&weights, b"spoilt").unwrap();
    let error = machine
        .pull_from("http://127.0.0.1:1", "maker/tiny")
        .unwrap_err();
    assert!(matches!(error, HubError::HashMismatch { .. }), "{error}");
}

fn snapshot_file(cache: &Path, name: &str) -> std::path::PathBuf {
    cache
        .join("models--maker--tiny/snapshots")
        .join(stand_in::COMMIT)
        .join(name)
}

#[test]
fn tags_that_are_no_hashes_never_reach_the_file_system() {
    let etag = "../../../escape".to_owned();
    let hub = StandIn::new(&[
        ("config.json", config()),
        (
            "model.safetensors",
            HubFile {
                content: b"x".to_vec(),
                etag,
            },
        ),
    ]);
    let mut machine = Machine::new();
    let error = machine.pull(&hub).unwrap_err();
    assert!(matches!(error, HubError::BadAnswer { .. }), "{error}");
}

#[test]
fn two_pulls_at_once_download_once() {
    let (hub, machine) = (tiny_hub(), Machine::new());
    let pull = || {
        let hugging_face = HuggingFace {
            endpoint: Some(hub.endpoint.clone()),
            cache: machine.path("cache"),
            token: None,
            offline: false,
        };
        let sources = Sources {
            hugging_face,
            pythons: Pythons::default(),
            part: Part::Whole,
            again: false,
        };
        let reference = Reference::parse("maker/tiny").unwrap();
        obtain(
            &Store::at(machine.path("models")),
            &sources,
            &reference,
            &mut hub::Silent,
        )
        .unwrap()
    };
    let models = std::thread::scope(|scope| {
        let both: Vec<_> = (0..2).map(|_| scope.spawn(pull)).collect();
        both.into_iter()
            .map(|thread| thread.join().unwrap())
            .collect::<Vec<_>>()
    });
    assert_eq!(models[0], models[1]);
    assert_eq!(transfers(&hub), [" 0-"]);
}
