//! `peregrine pull`: a model into the local store.

use anyhow::Context as _;
use flags::{Command, FlagSpec, Group, Positional, Takes};

use crate::env::Env;
use crate::failure::{Failure, usage};
use crate::logging::{self, Levels};
use crate::obtain::{Wanted, obtain};
use crate::print::print;

const COMMAND: Command<'static> = Command {
    program: "peregrine pull",
    about: "Brings a model into the local store, hash-checked, and prints where it lies.",
    positionals: &[Positional {
        name: "NAME",
        takes: Takes::Maybe(""),
        help: "A known name, or a hub id: organisation/name[@revision][:file.gguf]. Without it the default \
               model.",
    }],
    groups: &[Group {
        title: "options",
        flags: &[
            FlagSpec::text(
                "model-store",
                "Folder that holds pulled models; ~/.cache/peregrine/models when not given.",
            ),
            FlagSpec::text("revision", "Branch, tag or commit of a hub model."),
            FlagSpec::text("download-dir", "Cache folder for hub downloads."),
            FlagSpec::switch("again", "Fetch and check it even if it is already here."),
        ],
    }],
};

/// Runs the command.
pub(crate) fn run(words: &[String], env: &Env) -> Result<(), Failure> {
    let parsed = match COMMAND.parse(words) {
        Ok(parsed) => parsed,
        Err(error) => {
            if error.exit_code() == 0 {
                return print(&COMMAND.help());
            }
            return usage(error.into(), COMMAND.usage(), COMMAND.program);
        }
    };
    let filter = env.log_filter.as_deref();
    logging::start(Levels {
        all: "info",
        access: None,
        filter,
    })
    .map_err(Failure::Config)?;
    let wanted = Wanted {
        model: parsed.words().first().map(String::as_str),
        revision: parsed.text("revision"),
        store: parsed.text("model-store"),
        cache: parsed.text("download-dir"),
        part: hub::Part::Whole,
        again: parsed.switch("again"),
    };
    let model = obtain(wanted, env)
        .context("cannot pull the model")
        .map_err(Failure::Config)?;
    print(&format!("{}\n", model.path.display()))
}
