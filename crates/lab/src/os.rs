//! The few calls to the operating system that the standard library does not offer.
#![expect(
    unsafe_code,
    reason = "signals to process groups and dying with a parent have no safe wrapper here"
)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A signal that stops a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Asks politely.
    Terminate,
    /// As a person's control-C does.
    Interrupt,
    /// Asks nothing.
    Kill,
}

impl Signal {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
            Self::Kill => "SIGKILL",
        }
    }

    fn number(self) -> libc::c_int {
        match self {
            Self::Terminate => libc::SIGTERM,
            Self::Interrupt => libc::SIGINT,
            Self::Kill => libc::SIGKILL,
        }
    }
}

/// An exit code in words: codes above 128 are signals that ended a process.
pub(crate) fn exit_code(code: i32) -> String {
    let name = match code - 128 {
        libc::SIGABRT => " (SIGABRT)",
        libc::SIGBUS => " (SIGBUS)",
        libc::SIGFPE => " (SIGFPE)",
        libc::SIGILL => " (SIGILL)",
        libc::SIGINT => " (SIGINT)",
        libc::SIGKILL => " (SIGKILL; the kernel does so when memory runs out)",
        libc::SIGSEGV => " (SIGSEGV)",
        libc::SIGTERM => " (SIGTERM)",
        _ => "",
    };
    format!("{code}{name}")
}

/// Sends a signal to every process of a group.
pub(crate) fn signal_group(group: u32, signal: Signal) -> io::Result<()> {
    send(-i64::from(group), signal)
}

/// Sends a signal to one process.
pub(crate) fn signal_process(process: u32, signal: Signal) -> io::Result<()> {
    send(i64::from(process), signal)
}

fn send(to: i64, signal: Signal) -> io::Result<()> {
    let to = libc::pid_t::try_from(to).map_err(io::Error::other)?;
    if to.unsigned_abs() < 2 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the call takes two numbers and touches no memory of ours.
    let answer = unsafe { libc::kill(to, signal.number()) };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Has a child asked to end when the thread that starts it ends, whatever the reason.
pub(crate) fn die_with_parent(command: &mut Command) {
    let asked = || {
        // SAFETY: takes two numbers; it is among the calls that are safe between fork and exec.
        let answer = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) };
        if answer == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    };
    // SAFETY: the closure allocates nothing, takes no lock and makes one call that is safe there.
    unsafe { command.pre_exec(asked) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_signals_are_named() {
        assert_eq!(exit_code(3), "3");
        assert_eq!(exit_code(139), "139 (SIGSEGV)");
    }

    #[test]
    fn nobody_and_everybody_are_no_receivers() {
        for process in [0, 1] {
            assert!(signal_process(process, Signal::Terminate).is_err());
            assert!(signal_group(process, Signal::Terminate).is_err());
        }
    }
}
