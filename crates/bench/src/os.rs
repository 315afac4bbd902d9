//! The few calls to the operating system that the standard library does not offer.
#![expect(
    unsafe_code,
    reason = "socket stamps, use of resources and timer slack have no safe wrapper here"
)]

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::from_mut;
use std::time::Duration;

/// Asks the kernel to stamp arriving data with the wall clock.
pub(crate) fn stamp_arrivals(socket: &impl AsFd) -> io::Result<()> {
    set_option(socket, libc::SO_TIMESTAMPNS, 1)
}

/// Lets this much data wait at a socket before its sender is held up.
pub(crate) fn widen_inbox(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set_option(socket, libc::SO_RCVBUF, bytes)
}

fn set_option(socket: &impl AsFd, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is borrowed and open; the option value outlives the call.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            std::ptr::from_ref(&value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    checked(answer as isize).map(drop)
}

/// Room for one control message that carries a time stamp, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Receives without blocking: the byte count and the wall-clock arrival of the last byte, when the
/// kernel knows it.
pub(crate) fn receive(
    socket: &impl AsFd,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<Duration>)> {
    let mut control = Control([0; 64]);
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all-zero is a valid message header; every pointer set below outlives the call.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = from_mut(&mut part);
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len();
    // SAFETY: the header describes `buffer` and `control`, both writable for the whole call.
    let answer = unsafe {
        libc::recvmsg(
            socket.as_fd().as_raw_fd(),
            from_mut(&mut header),
            libc::MSG_DONTWAIT,
        )
    };
    let length = checked(answer)?;
    Ok((
        length,
        stamp_of(&control.0[..header.msg_controllen.min(64)]),
    ))
}

/// The stamp in a control buffer: a header of 16 bytes, then seconds and nanoseconds.
fn stamp_of(control: &[u8]) -> Option<Duration> {
    let number = |at: usize| {
        Some(i64::from_ne_bytes(
            control.get(at..at + 8)?.try_into().ok()?,
        ))
    };
    let kind = control.get(8..16)?;
    let word = |at: usize| Some(i32::from_ne_bytes(kind.get(at..at + 4)?.try_into().ok()?));
    if word(0)? != libc::SOL_SOCKET || word(4)? != libc::SO_TIMESTAMPNS {
        return None;
    }
    Some(Duration::new(
        u64::try_from(number(16)?).ok()?,
        u32::try_from(number(24)?).ok()?,
    ))
}

/// What this process has used so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessUsage {
    /// Processor time, user and system.
    pub cpu: Duration,
    /// The most memory ever resident, in bytes.
    pub peak_memory: u64,
}

/// Reads the usage of this process.
pub fn process_usage() -> ProcessUsage {
    // SAFETY: all-zero is a valid `rusage`, and the call only writes to it.
    let usage = unsafe {
        let mut usage: libc::rusage = zeroed();
        libc::getrusage(libc::RUSAGE_SELF, from_mut(&mut usage));
        usage
    };
    let time = |value: libc::timeval| {
        Duration::from_secs(value.tv_sec as u64) + Duration::from_micros(value.tv_usec as u64)
    };
    ProcessUsage {
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
        peak_memory: usage.ru_maxrss as u64 * 1024,
    }
}

/// The month and day of a moment where this machine is.
pub(crate) fn local_month_day(unix_seconds: u64) -> (u32, u32) {
    let moment = unix_seconds as libc::time_t;
    // SAFETY: all-zero is a valid `tm`; the call reads the moment and writes only the `tm`.
    let local = unsafe {
        let mut local: libc::tm = zeroed();
        libc::localtime_r(&raw const moment, from_mut(&mut local));
        local
    };
    (local.tm_mon as u32 + 1, local.tm_mday as u32)
}

/// Lets timed waits of this thread end within microseconds instead of the usual fifty.
pub(crate) fn sharpen_timers() {
    // SAFETY: the call takes plain numbers; a kernel that refuses leaves the slack as it was.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64);
    }
}

fn checked(answer: isize) -> io::Result<usize> {
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::{SystemTime, UNIX_EPOCH};

    #[test]
    fn data_arrives_with_the_moment_it_was_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        stamp_arrivals(&receiver).unwrap();
        let mut buffer = [0; 16];
        assert_eq!(
            receive(&receiver, &mut buffer).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        // The kernel begins to stamp a moment after the first socket asked for it.
        let stamp = (0..100_000).find_map(|_| {
            sender.write_all(b"hello").unwrap();
            receiver.peek(&mut buffer).unwrap();
            let (length, stamp) = receive(&receiver, &mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"hello");
            stamp
        });
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let age = now
            .checked_sub(stamp.expect("the kernel stamps loopback data"))
            .unwrap();
        assert!(age < Duration::from_secs(5), "{age:?}");
    }

    #[test]
    fn usage_grows_and_is_not_empty() {
        let usage = process_usage();
        assert!(usage.peak_memory > 100_000);
        assert!(process_usage().cpu >= usage.cpu);
    }
}
