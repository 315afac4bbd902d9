//! `peregrine bench`: a load on any server, measured.

use std::io::{self, ErrorKind, IsTerminal as _, Stdout, Write, stderr, stdout};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bench::serving::{self, Surroundings};
use bench::vocabulary::{Vocabulary, VocabularyError, digest_of};
use bench::{gsm8k, one_batch};
use checkpoint::gguf::{Array, GgufSource, Metadata, Value};
use hub::Part;

use crate::command_line::unknown_of;
use crate::env::Env;
use crate::failure::Failure;
use crate::language::gguf_text;
use crate::obtain::{Wanted, obtain};
use crate::print::{cannot_write, print};
use crate::templates;

const HELP: &str = "usage: peregrine bench COMMAND [options]\n\ncommands:\n  serving    put a load on a server \
                    and measure it (arguments of sglang.bench_serving)\n  one-batch  the latency of one batch of \
                    a given shape\n  gsm8k      few-shot accuracy beside speed\n\n`peregrine bench COMMAND \
                    --help` lists the options of a command.\n";

/// A command of the benchmark: its words in, the process's exit code out.
type Command = fn(&[String], &mut Surroundings<'_>) -> u8;

const COMMANDS: &[(&str, Command)] = &[
    ("serving", serving::main),
    ("one-batch", one_batch::main),
    ("gsm8k", gsm8k::main),
];

/// Runs the command.
pub(crate) fn run(words: &[String], env: &Env) -> Result<(), Failure> {
    match words.split_first() {
        None => print(HELP),
        Some((word, _)) if matches!(word.as_str(), "help" | "-h" | "--help") => print(HELP),
        Some((word, rest)) => {
            let Some((_, command)) = COMMANDS.iter().find(|(name, _)| name == word) else {
                let names: Vec<&str> = COMMANDS.iter().map(|(name, _)| *name).collect();
                return Err(unknown_of("peregrine bench", word, &names));
            };
            measure(*command, rest, env)
        }
    }
}

fn measure(command: Command, words: &[String], env: &Env) -> Result<(), Failure> {
    let tokenizers = |name: &str| vocabulary(name, env);
    let lost = Arc::new(Mutex::new(None));
    let mut surroundings = Surroundings {
        openai_api_key: env.openai_api_key.clone(),
        api_key: env.api_key.clone(),
        flush_always: env.in_ci,
        profile_folder: env.profile_folder.clone(),
        tokenizers: &tokenizers,
        out: Box::new(Watched {
            out: stdout(),
            lost: Arc::clone(&lost),
        }),
        err: Box::new(stderr()),
        terminal: stderr().is_terminal(),
        catch_interrupts: true,
    };
    let code = command(words, &mut surroundings);
    let lost = lost.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (code, lost) {
        (0, None) => Ok(()),
        (0, Some(error)) => Err(Failure::Broken(cannot_write(error))),
        (code, _) => Err(Failure::Told(code)),
    }
}

/// Standard output that remembers what was lost: a measurement goes on without it, but is no success.
struct Watched {
    out: Stdout,
    lost: Arc<Mutex<Option<io::Error>>>,
}

impl Watched {
    fn note<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result
            && error.kind() != ErrorKind::BrokenPipe
        {
            let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
            lost.get_or_insert_with(|| error.kind().into());
        }
        result
    }
}

impl Write for Watched {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes);
        self.note(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        self.note(flushed)
    }
}

/// The tokenizer of a folder, a file, or a model by its name; weights are not fetched for it.
pub(crate) fn vocabulary(name: &str, env: &Env) -> Result<Vocabulary, VocabularyError> {
    let malformed = |reason: String| VocabularyError::Malformed {
        name: name.to_owned(),
        reason,
    };
    let wanted = Wanted {
        model: Some(name),
        revision: None,
        store: None,
        cache: None,
        part: Part::Text,
        again: false,
    };
    if Path::new(name).join("tokenizer.json").is_file() {
        return Vocabulary::with_templates(name, &templates::compile);
    }
    let model = obtain(wanted, env).map_err(|error| malformed(advice(&format!("{error:#}"))))?;
    if model.path.extension().is_none_or(|end| end != "gguf") {
        return Vocabulary::with_templates(&model.path.to_string_lossy(), &templates::compile);
    }
    let (tokenizer, template) =
        gguf_text(&model.path).map_err(|error| malformed(format!("{error:#}")))?;
    let size = tokenizer.vocab_size();
    let fingerprint = fingerprint(&model.path).map_err(|error| malformed(format!("{error:#}")))?;
    Ok(Vocabulary::new(tokenizer, template, size, fingerprint))
}

/// The option that names a tokenizer here is another one than a server's.
fn advice(error: &str) -> String {
    error.replace("--model-path", "--tokenizer")
}

/// The digest of all that a GGUF file says about its tokenizer; the weights beside it are not read.
fn fingerprint(path: &Path) -> anyhow::Result<String> {
    let source = GgufSource::open(path)?;
    let metadata = source.metadata();
    let keys = metadata.keys().filter(|key| key.starts_with("tokenizer."));
    let parts = keys.map(|key| Ok((key, value_bytes(&metadata, key)?)));
    let parts: Vec<(&str, Vec<u8>)> = parts.collect::<anyhow::Result<_>>()?;
    Ok(digest_of(parts))
}

/// A value of a GGUF file, so that equal bytes are equal values.
fn value_bytes(metadata: &Metadata<'_>, key: &str) -> anyhow::Result<Vec<u8>> {
    Ok(match metadata.value(key) {
        Some(Value::Text(_)) => metadata.text(key)?.unwrap_or_default().into(),
        Some(Value::Array { .. }) => {
            let array = metadata.array(key)?;
            let texts = array.iter().flat_map(Array::texts);
            let numbers = array.iter().flat_map(Array::numbers);
            let mut bytes = Vec::new();
            for text in texts {
                bytes.extend((text.len() as u64).to_le_bytes());
                bytes.extend(text);
            }
            for number in numbers {
                bytes.extend(format!("{number:?} ").into_bytes());
            }
            bytes
        }
        other => format!("{other:?}").into_bytes(),
    })
}

#[cfg(test)]
mod tests;
