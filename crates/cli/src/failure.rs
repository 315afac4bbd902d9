//! How a command ends when it cannot do what was asked.

use std::process::ExitCode;

use crate::args::ArgsError;

/// A command that ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line is wrong; the usage line goes before it.
    Usage {
        /// One line.
        usage: String,
        /// The program, as in `peregrine serve`.
        program: &'static str,
        /// What is wrong.
        error: anyhow::Error,
    },
    /// The configuration, the model or the machine does not allow it.
    Config(anyhow::Error),
    /// It broke while it worked.
    Broken(anyhow::Error),
    /// It has been told; only the code is left.
    Told(u8),
}

impl Failure {
    /// What the process returns.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage { .. } | Self::Config(_) => ExitCode::from(2),
            Self::Broken(_) => ExitCode::FAILURE,
            Self::Told(code) => ExitCode::from(*code),
        }
    }

    /// What people read: the usage when that helps, the error, and its causes.
    pub(crate) fn message(&self) -> Option<String> {
        match self {
            Self::Usage {
                usage,
                program,
                error,
            } => Some(format!("{usage}\n{program}: error: {}", chain(error))),
            Self::Config(error) | Self::Broken(error) => Some(format!("error: {}", chain(error))),
            Self::Told(_) => None,
        }
    }
}

/// The error and its causes, one per line; a cause that its parent already quotes is left out.
fn chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text += "\n  because: ";
            text += &cause;
        }
    }
    text
}

/// Either the help that was asked for or a usage failure.
pub(crate) fn usage(error: ArgsError, usage: String, program: &'static str) -> Result<(), Failure> {
    if error.is_help() {
        return Ok(());
    }
    Err(Failure::Usage {
        usage,
        program,
        error: error.into(),
    })
}
