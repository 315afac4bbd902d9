//! The serving benchmark as a program of its own, for comparing its cost with that of other clients.

use bench::serving::{Surroundings, main as serve};
use bench::vocabulary::Vocabulary;
use std::io::{IsTerminal, stderr, stdout};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut surroundings = Surroundings {
        openai_api_key: None,
        api_key: None,
        flush_always: false,
        profile_folder: None,
        tokenizers: &Vocabulary::from_path,
        out: Box::new(stdout()),
        err: Box::new(stderr()),
        terminal: stderr().is_terminal(),
        catch_interrupts: true,
    };
    ExitCode::from(serve(&args, &mut surroundings))
}
