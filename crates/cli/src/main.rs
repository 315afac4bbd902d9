//! The one binary: arguments, resolution and wiring. It knows every crate and decides nothing that a
//! component could decide; it reads the environment in one file and ends every mistake with a cause and
//! a hint.

mod args;
mod bench;
mod bus_error;
mod command_line;
mod cuda_libraries;
mod device;
mod end;
mod env;
mod failure;
mod front;
mod generate;
mod heap;
mod inspect;
mod lab;
mod language;
mod launch;
mod list;
mod logging;
mod obtain;
mod opened;
mod parsers;
mod print;
mod progress;
mod pull;
mod serve;
mod start;
mod suggest;
mod summary;
mod templates;

use std::io::{Write as _, stderr};
use std::process::ExitCode;

use self::args::{ServerArgs, ServerCommand};
use self::env::Env;
use self::failure::{Failure, usage};
use self::print::print;

fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == templates::WORD)
    {
        return templates::serve();
    }
    bus_error::explain();
    let done = command_line::words(std::env::args_os().skip(1)).and_then(|words| {
        let (command, words) = command_line::split(&words);
        run(command.as_deref(), &words)
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            complain(&failure);
            failure.exit_code()
        }
    }
}

fn run(command: Option<&str>, words: &[String]) -> Result<(), Failure> {
    let env = Env::read();
    match command {
        Some("help") if !words.is_empty() => {
            let asked = command_line::asked_help(words);
            asked.map_or(Ok(()), |(command, words)| run(Some(&command), &words))
        }
        None | Some("help" | "-h" | "--help") => print(&command_line::help()),
        Some("version" | "--version" | "-V") => {
            print(concat!("peregrine ", env!("CARGO_PKG_VERSION"), "\n"))
        }
        Some("generate") => with_args(generate::COMMAND, words, |args| generate::run(args, &env)),
        Some("inspect") => with_args(inspect::COMMAND, words, |args| inspect::run(args, &env)),
        Some("serve") => with_args(serve::COMMAND, words, |args| serve::run(args, &env)),
        Some("bench") => bench::run(words, &env),
        Some("lab") => lab::run(words, &env),
        Some("pull") => pull::run(words, &env),
        Some("list") => list::run(words, &env),
        Some(other) => Err(command_line::unknown(other)),
    }
}

/// Parses the server's flags and runs, unless help was asked for.
fn with_args(
    command: ServerCommand,
    words: &[String],
    then: impl FnOnce(&ServerArgs) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // before anything is required, as `--help` is
    if words.iter().any(|word| word == "--help-all") {
        return print(&command.help(true));
    }
    match command.parse(words) {
        Ok(args) => then(&args),
        Err(error) => {
            if error.is_help() {
                return print(&command.help(false));
            }
            usage(error, command.usage(), command.program)
        }
    }
}

fn complain(failure: &Failure) {
    if let Some(message) = failure.message() {
        // The exit code says it too, should nobody read this.
        let _ = writeln!(stderr(), "{message}");
    }
}
