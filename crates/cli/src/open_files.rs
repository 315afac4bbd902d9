//! How many files, and so connections, this process may have open.

use std::io;

/// As many as SGLang's server asks for.
const WANTED: u64 = 65_535;

/// Raises the limit towards what is wanted, as far as the system lets us; it is never lowered.
#[expect(unsafe_code, reason = "limits are the C library's to change")]
pub(crate) fn raise_limit() -> io::Result<()> {
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
        return Ok(());
    }
    limit.rlim_cur = most;
    // SAFETY: as above.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
