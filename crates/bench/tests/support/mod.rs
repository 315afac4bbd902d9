//! What the tests against scripted servers share.
#![allow(dead_code, reason = "each test file uses its own part of this")]

pub(crate) mod bench;
pub(crate) mod sealed;

use ::bench::client::{Backend, Client, Extras, Manner, Sampling, Trust, Url, Wording};
use ::bench::dataset::Row;
use ::bench::load::{Load, LoadOutcome, Onlooker};
use ::bench::pace::{LoadState, Pace};
use ::bench::record::RequestRecord;
use ::bench::release::Release;
use ::bench::serving::Surroundings;
use ::bench::stop::StopRules;
use ::bench::vocabulary::Vocabulary;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Nobody looks on.
pub(crate) struct Nobody;

impl Onlooker for Nobody {
    fn finished(&mut self, _: &RequestRecord, _: &LoadState) {}
    fn patience(&self) -> Duration {
        Duration::from_secs(1)
    }
    fn look(&mut self, _: &LoadState, _: usize) {}
}

/// A file of tests/data.
pub(crate) fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// The same as text.
pub(crate) fn data_text(name: &str) -> String {
    data(name).to_str().expect("the path is UTF-8").to_owned()
}

/// How to speak to a scripted server.
pub(crate) fn manner(base: &str, backend: &str) -> Manner {
    Manner {
        backend: Backend::named(backend).expect("the backend is known"),
        base: Url::parse(base).expect("the address is one"),
        trust: Trust::usual(),
        release: Release::USUAL,
        model: "scripted".to_owned(),
        headers: Vec::new(),
        stream: true,
        ignore_eos: true,
        sampling: Sampling {
            temperature: 0.0,
            top_p: 1.0,
        },
        extras: Extras {
            start: -1,
            ..Extras::default()
        },
        extra_body: serde_json::Map::new(),
        wording: Wording::Sglang,
    }
}

/// Rows whose prompts are their numbers.
pub(crate) fn numbered(count: usize, output_tokens: u64) -> Vec<Arc<Row>> {
    (0..count)
        .map(|row| Arc::new(Row::text(format!("row {row}"), 2, output_tokens)))
        .collect()
}

/// The number in a prompt made by [`numbered`].
pub(crate) fn row_number(prompt: &serde_json::Value) -> Option<usize> {
    prompt.as_str()?.strip_prefix("row ")?.parse().ok()
}

/// Puts rows on the server.
pub(crate) fn drive(
    client: &mut Client,
    rows: &[Arc<Row>],
    pace: Box<dyn Pace>,
    gate: Option<usize>,
) -> LoadOutcome {
    let load = Load {
        rows,
        adapters: &[],
        pace,
        gate,
        stop: StopRules::default(),
        again: false,
        skip: &|_| false,
    };
    ::bench::load::run(client, load, &mut Nobody)
}

/// What was written, for whoever asks later.
#[derive(Clone, Default)]
pub(crate) struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("no writer panics")).into_owned()
    }
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .expect("no writer panics")
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a run returned and printed.
pub(crate) struct Printed {
    pub(crate) code: u8,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs a command of this crate with these words.
pub(crate) fn run_with(
    main: impl Fn(&[String], &mut Surroundings<'_>) -> u8,
    words: &[&str],
) -> Printed {
    run_in(main, words, false)
}

fn run_in(
    main: impl Fn(&[String], &mut Surroundings<'_>) -> u8,
    words: &[&str],
    catch_interrupts: bool,
) -> Printed {
    let (out, err) = (Captured::default(), Captured::default());
    let mut surroundings = Surroundings {
        openai_api_key: None,
        api_key: Some("secret".to_owned()),
        flush_always: false,
        profile_folder: None,
        tokenizers: &Vocabulary::from_path,
        out: Box::new(out.clone()),
        err: Box::new(err.clone()),
        terminal: false,
        catch_interrupts,
    };
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let code = main(&words, &mut surroundings);
    Printed {
        code,
        out: out.text(),
        err: err.text(),
    }
}

/// Runs `bench serving` with these words.
pub(crate) fn serve(words: &[&str]) -> Printed {
    run_with(::bench::serving::main, words)
}

/// The same, ended by an interrupt of this process.
pub(crate) fn interruptible(words: &[&str]) -> Printed {
    run_in(::bench::serving::main, words, true)
}
