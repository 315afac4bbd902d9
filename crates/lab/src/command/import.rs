//! `lab import`: results that people already have, into the store.

use std::fs;
use std::path::Path;

use flags::{Command, FlagSpec, Group, Parsed, Positional, Takes};

use super::{Console, Failure, STORE, count_of_runs, make_store};
use crate::import::{self, Names, UNNAMED};
use crate::store::{Added, Parcel};

pub(super) const COMMAND: Command<'static> = Command {
    program: "peregrine lab import",
    about: "Reads results from texts into the store. Tables of bench_serving and of the LMDeploy \
            client, logs of a matrix runner, notebooks and reports with such tables, and result \
            lines are understood. Runs that were read before stay as they are, but for names that are \
            given with --subject and --load. Ends with 1 when no run was found.",
    positionals: &[Positional {
        name: "FILE",
        takes: Takes::Some,
        help: "Texts.",
    }],
    groups: &[Group {
        title: "options",
        flags: &[
            STORE,
            FlagSpec::text("subject", "The name of the server that was measured."),
            FlagSpec::text("load", "The name of the load."),
        ],
    }],
};

pub(super) fn run(parsed: &Parsed, console: &mut Console<'_>) -> Result<u8, Failure> {
    let mut store = make_store(parsed, console)?;
    let names = Names {
        subject: parsed.text("subject").map(str::to_owned),
        load: parsed.text("load").map(str::to_owned),
    };
    let (mut found_in_all, mut new_in_all) = (0, 0);
    for path in parsed.words().iter().map(Path::new) {
        let bytes = fs::read(path).map_err(|source| Failure::File {
            path: path.to_owned(),
            source,
        })?;
        let text = String::from_utf8_lossy(&bytes);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let runs = import::runs_named(&name, &text, &names);
        let mut new = 0;
        for found in &runs {
            let parcel = Parcel {
                run: &found.run,
                records: &found.records,
                texts: vec![("table.txt", &found.text)],
                files: Vec::new(),
            };
            match store.add(&parcel)? {
                Added::New => new += 1,
                Added::Known if names != Names::default() => store.amend(&found.run)?,
                Added::Known => {}
            }
        }
        console.say(&format!("{name}: {}, {new} new", count_of_runs(runs.len())));
        if runs.iter().any(|found| found.run.subject.name == UNNAMED) {
            console.warn(&format!(
                "{name}: nothing says which server was measured; name it with --subject, or choose its \
                 runs by file={name}"
            ));
        }
        if runs.is_empty() {
            console.warn(&format!(
                "{name}: no table and no result line was found in it"
            ));
        }
        found_in_all += runs.len();
        new_in_all += new;
    }
    if parsed.words().len() > 1 {
        let found = count_of_runs(found_in_all);
        console.say(&format!("{found}, {new_in_all} new"));
    }
    Ok(u8::from(found_in_all == 0))
}
