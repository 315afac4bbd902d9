//! What was asked for, on standard output.

use std::io::{self, ErrorKind, Write as _, stdout};

use crate::failure::Failure;

/// Writes text that has its own line ends.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    unless_gone(written).map_err(|error| Failure::Broken(cannot_write(error)))
}

/// What to say when standard output takes nothing.
pub(crate) fn cannot_write(error: io::Error) -> anyhow::Error {
    anyhow::Error::new(error).context("cannot write to standard output")
}

/// A reader that went away, as `head` does, has what it wanted.
pub(crate) fn unless_gone(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_reader_that_went_away_is_no_mistake() {
        assert!(unless_gone(Ok(())).is_ok());
        assert!(unless_gone(Err(ErrorKind::BrokenPipe.into())).is_ok());
        assert!(unless_gone(Err(ErrorKind::StorageFull.into())).is_err());
    }
}
