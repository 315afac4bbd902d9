//! The laboratory and its client without the rest of the binary, for trying and for its own tests.

use std::io::{stderr, stdout};
use std::path::Path;
use std::process::ExitCode;

use bench::serving::{self, Surroundings};
use bench::vocabulary::Vocabulary;
use lab::Services;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    ExitCode::from(match args.as_slice() {
        [first, second, rest @ ..] if first == "bench" && second == "serving" => load(rest),
        _ => {
            // there is no server in this program
            let check_serve = |_: &[String], _: Option<&Path>| Ok(());
            let services = Services {
                tokenizers: &Vocabulary::from_path,
                check_serve: &check_serve,
            };
            lab::main(&args, services)
        }
    })
}

fn load(args: &[String]) -> u8 {
    let mut surroundings = Surroundings {
        openai_api_key: None,
        api_key: None,
        flush_always: false,
        profile_folder: None,
        tokenizers: &Vocabulary::from_path,
        out: Box::new(stdout()),
        err: Box::new(stderr()),
        terminal: false,
        catch_interrupts: true,
    };
    serving::main(args, &mut surroundings)
}
