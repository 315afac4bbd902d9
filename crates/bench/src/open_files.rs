//! How many files, and so connections, this process may have open; servers ask for it too.
#![expect(
    unsafe_code,
    reason = "limits and numbers of descriptors are the C library's to choose"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// As many as SGLang's server and its clients ask for.
pub const WANTED: u64 = 65_535;

/// Raises the limit towards what is wanted, as far as the system lets us, and makes room for so many, which are returned. Best
/// called before there are threads.
pub fn make_room() -> io::Result<u64> {
    let files = raise_limit()?.min(WANTED);
    // Without it the table grows when it must, and that only takes longer.
    let _ = grow_table(files);
    Ok(files)
}

/// The limit is never lowered.
fn raise_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the limit is a plain value that outlives the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let most = limit.rlim_max.min(WANTED);
    if limit.rlim_cur >= most {
        return Ok(limit.rlim_cur);
    }
    limit.rlim_cur = most;
    // SAFETY: as above.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(most)
}

/// Linux makes a table of open files larger once a file does not fit, at 64 or 256 of them and at twice as many each time. With
/// threads it waits for all processors first: for 10 to 30 ms nobody who connects is heard. One file with a high number
/// makes all of the table now.
fn grow_table(files: u64) -> io::Result<()> {
    let highest = libc::c_int::try_from(files.saturating_sub(1)).unwrap_or(libc::c_int::MAX);
    let any = File::open("/")?;
    // SAFETY: the descriptor is open as long as `any` is.
    let copy = unsafe { libc::fcntl(any.as_raw_fd(), libc::F_DUPFD_CLOEXEC, highest) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was just made, and nobody else knows it.
    drop(unsafe { OwnedFd::from_raw_fd(copy) });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_all_files_that_are_allowed() {
        make_room().unwrap();
        let allowed = raise_limit().unwrap().min(WANTED);
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let size = status
            .lines()
            .find_map(|line| line.strip_prefix("FDSize:"))
            .unwrap();
        let size: u64 = size.trim().parse().unwrap();
        assert!(size >= allowed, "{size} of {allowed}");
    }
}
