//! `peregrine list`: what the local store holds.

use std::fmt::Write as _;

use anyhow::Context as _;
use flags::{Command, FlagSpec, Group};
use hub::{Store, StoredModel};

use crate::env::Env;
use crate::failure::{Failure, usage};
use crate::obtain::store_folder;
use crate::print::print;
use crate::progress::size;

const COMMAND: Command<'static> = Command {
    program: "peregrine list",
    about: "Lists the models of the local store: name, size, and where each lies.",
    positionals: &[],
    groups: &[Group {
        title: "options",
        flags: &[FlagSpec::text(
            "model-store",
            "Folder that holds pulled models; ~/.cache/peregrine/models when not given.",
        )],
    }],
};

/// Runs the command.
pub(crate) fn run(words: &[String], env: &Env) -> Result<(), Failure> {
    let parsed = match COMMAND.parse(words) {
        Ok(parsed) => parsed,
        Err(error) if error.exit_code() == 0 => return print(&COMMAND.help()),
        Err(error) => return usage(error.into(), COMMAND.usage(), COMMAND.program),
    };
    let folder = store_folder(parsed.text("model-store"), env).map_err(Failure::Config)?;
    let models = Store::at(folder.clone()).models();
    let models = models
        .context("cannot list the models")
        .map_err(Failure::Config)?;
    if models.is_empty() {
        let line = format!(
            "{} holds no models; `peregrine pull` brings the default one\n",
            folder.display()
        );
        return print(&line);
    }
    print(&table(&models))
}

fn table(models: &[StoredModel]) -> String {
    let names = models.iter().map(|model| model.name.chars().count());
    let width = names.max().unwrap_or(0);
    models.iter().fold(String::new(), |mut text, model| {
        let (name, size, path) = (&model.name, size(model.bytes), model.path.display());
        let _ = writeln!(text, "{name:width$}  {size:>8}  {path}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let model = |name: &str, bytes| StoredModel {
            name: name.to_owned(),
            bytes,
            path: format!("/m/{name}").into(),
        };
        let text = table(&[model("a", 98_362_432), model("maker/long", 7)]);
        let expected = "a            98.4 MB  /m/a\nmaker/long       7 B  /m/maker/long\n";
        assert_eq!(text, expected);
    }
}
