//! Many runs: subjects are started and loaded cell by cell, results are kept, compared and told.
//!
//! It says what numbers allow to be said and no more: an effect comes with its interval, arms that
//! differ in more than one thing are named, and a first run that was cold is left out in the open. It
//! measures nothing itself (that is `bench`) and knows servers only by how they are started.

mod check;
mod columns;
mod command;
pub mod command_line;
pub mod compare;
pub mod diff;
mod driver;
pub mod figures;
pub mod finding;
pub mod history;
pub mod import;
mod interrupt;
pub mod machine;
mod matrix;
pub mod metric;
mod moment;
mod os;
mod report;
mod requests;
pub mod run;
pub mod statistics;
pub mod store;
mod subject;
pub mod verdict;

use std::io::{stderr, stdout};
use std::path::Path;

use bench::vocabulary::{Vocabulary, VocabularyError};

/// How tokenizers are had by the names that loads give them.
pub type Tokenizers<'a> = &'a dyn Fn(&str) -> Result<Vocabulary, VocabularyError>;

/// Reads the words after `serve` and the folder it is started in; what is wrong with them.
pub type CheckServe<'a> = &'a dyn Fn(&[String], Option<&Path>) -> Result<(), String>;

/// What the rest of the binary does for the laboratory.
#[derive(Clone, Copy)]
pub struct Services<'a> {
    /// How tokenizers are had.
    pub tokenizers: Tokenizers<'a>,
    /// How command lines of our own server are checked.
    pub check_serve: CheckServe<'a>,
}

/// Runs `peregrine lab` with the words after its name; what the process returns.
pub fn main(args: &[String], services: Services<'_>) -> u8 {
    let (mut out, mut err) = (stdout(), stderr());
    command::main(
        args,
        &mut command::Console {
            out: &mut out,
            err: &mut err,
            services,
        },
    )
}
