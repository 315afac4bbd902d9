//! The laboratory without the rest of the binary, for trying and for its own tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    ExitCode::from(lab::main(&args))
}
