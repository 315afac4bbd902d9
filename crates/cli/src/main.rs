//! The one binary: arguments, resolution and wiring. It knows every crate and decides nothing that a
//! component could decide; it reads the environment in one file and ends every mistake with a cause and
//! a hint.

mod args;
mod bench;
mod command_line;
mod cuda_libraries;
mod device;
mod env;
mod failure;
mod generate;
mod inspect;
mod language;
mod launch;
mod logging;
mod obtain;
mod opened;
mod parsers;
mod progress;
mod pull;
mod serve;
mod start;

use std::process::ExitCode;

use self::args::{ServerArgs, ServerCommand};
use self::env::Env;
use self::failure::{Failure, usage};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (command, words) = command_line::split(&words);
    match run(command.as_deref(), &words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            complain(&failure);
            failure.exit_code()
        }
    }
}

#[expect(
    clippy::print_stdout,
    reason = "help and version are what was asked for"
)]
fn run(command: Option<&str>, words: &[String]) -> Result<(), Failure> {
    let env = Env::read();
    match command {
        None | Some("help" | "-h" | "--help") => {
            print!("{}", command_line::help());
            Ok(())
        }
        Some("version" | "--version" | "-V") => {
            println!("peregrine {}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
        Some("generate") => with_args(generate::COMMAND, words, |args| generate::run(args, &env)),
        Some("inspect") => with_args(inspect::COMMAND, words, |args| inspect::run(args, &env)),
        Some("serve") => with_args(serve::COMMAND, words, |args| serve::run(args, &env)),
        Some("bench") => bench::run(words, &env),
        Some("lab") => match lab::main(words, &|name| bench::vocabulary(name, &env)) {
            0 => Ok(()),
            code => Err(Failure::Told(code)),
        },
        Some("pull") => pull::run(words, &env),
        Some(other) => Err(command_line::unknown(other)),
    }
}

/// Parses the server's flags and runs, unless help was asked for.
#[expect(clippy::print_stdout, reason = "help is what was asked for")]
fn with_args(
    command: ServerCommand,
    words: &[String],
    then: impl FnOnce(&ServerArgs) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // before anything is required, as `--help` is
    if words.iter().any(|word| word == "--help-all") {
        print!("{}", command.help(true));
        return Ok(());
    }
    match command.parse(words) {
        Ok(args) => then(&args),
        Err(error) => {
            if error.is_help() {
                print!("{}", command.help(false));
            }
            usage(error, command.usage(), command.program)
        }
    }
}

#[expect(clippy::print_stderr, reason = "this is where mistakes are told")]
fn complain(failure: &Failure) {
    if let Some(message) = failure.message() {
        eprintln!("{message}");
    }
}
