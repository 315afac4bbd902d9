//! `peregrine bench`: a load on any server, measured.

use std::io::{IsTerminal as _, stderr, stdout};
use std::path::Path;
use std::time::UNIX_EPOCH;

use bench::serving::{self, Surroundings};
use bench::vocabulary::{Vocabulary, VocabularyError};
use bench::{gsm8k, one_batch};
use hub::Part;

use crate::command_line::unknown_of;
use crate::env::Env;
use crate::failure::Failure;
use crate::language::gguf_text;
use crate::obtain::{Wanted, obtain};
use crate::print::print;
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
    let mut surroundings = Surroundings {
        openai_api_key: env.openai_api_key.clone(),
        api_key: env.api_key.clone(),
        flush_always: env.in_ci,
        profile_folder: env.profile_folder.clone(),
        tokenizers: &tokenizers,
        out: Box::new(stdout()),
        err: Box::new(stderr()),
        terminal: stderr().is_terminal(),
        catch_interrupts: true,
    };
    match command(words, &mut surroundings) {
        0 => Ok(()),
        code => Err(Failure::Told(code)),
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
    let model = obtain(wanted, env).map_err(|error| malformed(error.to_string()))?;
    if model.path.extension().is_none_or(|end| end != "gguf") {
        return Vocabulary::with_templates(&model.path.to_string_lossy(), &templates::compile);
    }
    let (tokenizer, template) =
        gguf_text(&model.path).map_err(|error| malformed(format!("{error:#}")))?;
    let size = tokenizer.vocab_size();
    Ok(Vocabulary::new(
        tokenizer,
        template,
        size,
        fingerprint(&model.path),
    ))
}

/// Which file it is; reading all of it would take longer than many a measurement.
fn fingerprint(path: &Path) -> String {
    let facts = std::fs::metadata(path).ok();
    let length = facts.as_ref().map_or(0, std::fs::Metadata::len);
    let modified = facts.and_then(|facts| facts.modified().ok()?.duration_since(UNIX_EPOCH).ok());
    format!(
        "{} {length} {}",
        path.display(),
        modified.unwrap_or_default().as_nanos()
    )
}
