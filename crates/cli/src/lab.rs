//! `peregrine lab`: the laboratory, with what it needs of us.

use std::path::Path;

use hub::Reference;
use lab::Services;

use crate::bench::vocabulary;
use crate::env::Env;
use crate::failure::Failure;
use crate::obtain::Wanted;
use crate::serve;

/// Runs the command.
pub(crate) fn run(words: &[String], env: &Env) -> Result<(), Failure> {
    let services = Services {
        tokenizers: &|name| vocabulary(name, env),
        check_serve: &check_serve,
    };
    match lab::main(words, services) {
        0 => Ok(()),
        code => Err(Failure::Told(code)),
    }
}

/// What is wrong with the words after `serve`: flags, and a model that is neither here nor a name it
/// could be fetched by.
fn check_serve(words: &[String], folder: Option<&Path>) -> Result<(), String> {
    let args = serve::COMMAND.parse(words).map_err(|error| {
        if error.is_help() {
            "--help serves nothing".to_owned()
        } else {
            error.to_string()
        }
    })?;
    let Some(model) = Wanted::from(&args.parsed, serve::word(&args.parsed)).model else {
        return Ok(());
    };
    if folder.is_some_and(|folder| folder.join(model).exists()) {
        return Ok(());
    }
    Reference::parse(model)
        .map(drop)
        .map_err(|error| error.to_string())
}
