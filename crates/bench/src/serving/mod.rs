//! The serving benchmark: from a command line to a printed table and a result line.
//!
//! Without options of its own it is a stand-in for the reference's client, defects and all; with
//! `--strict`, or any option that the reference does not have, it measures properly.

mod calendar;
mod compat;
mod details;
mod error;
mod interrupts;
mod live;
mod lmdeploy;
mod max_rate;
mod options;
mod outputs;
mod page;
mod prepare;
mod profile;
mod progress;
mod provenance;
mod record_file;
mod requests;
mod resume;
mod run;
mod schedule;
mod source;
mod sparks;
mod strict;
mod strict_result;
mod surroundings;
mod warm_up;
mod warnings;

pub use error::ServingError;
pub use options::{Imitated, Options, help};
pub(crate) use progress::ProgressBar;
pub use surroundings::Surroundings;

use flags::FlagError;
use std::time::{Duration, Instant};

const PROGRAM: &str = "peregrine bench serving";

/// Runs `bench serving` with these words; what the process returns.
pub fn main(args: &[String], surroundings: &mut Surroundings<'_>) -> u8 {
    let served = Options::parse(args).and_then(|options| match options.imitated {
        Imitated::Lmdeploy => lmdeploy::serve(options, surroundings),
        Imitated::Sglang if options.strict => strict::serve(options, surroundings),
        Imitated::Sglang => compat::serve(options, surroundings),
    });
    match served {
        Ok(code) => code,
        Err(error) => {
            tell(&error, surroundings);
            error.exit_code()
        }
    }
}

fn tell(error: &ServingError, surroundings: &mut Surroundings<'_>) {
    match error {
        ServingError::Flags(FlagError::HelpAsked) => surroundings.show(&help()),
        ServingError::Flags(_) | ServingError::Usage(_) => {
            surroundings.warn(&format!(
                "usage: {PROGRAM} [options]\n{PROGRAM}: error: {error}"
            ));
        }
        ServingError::Said(_) => {}
        _ => surroundings.warn(&format!("{PROGRAM}: {error}")),
    }
}

/// Lets time pass.
fn pause(length: Duration) {
    let end = Instant::now() + length;
    while let Some(left) = end.checked_duration_since(Instant::now())
        && !left.is_zero()
    {
        std::thread::park_timeout(left);
    }
}
