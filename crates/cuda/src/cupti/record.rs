//! What CUPTI writes into its buffers, as far as a trace needs it.

use std::borrow::Cow;
use std::ffi::{CStr, c_char};

/// `CUPTI_ACTIVITY_KIND_…`
pub(super) const MEMCPY: u32 = 1;
pub(super) const MEMSET: u32 = 2;
const KERNEL: u32 = 3;
pub(super) const CONCURRENT_KERNEL: u32 = 10;

/// How records of copies, memsets and kernels begin, in all versions since CUDA 11.
#[derive(Clone, Copy)]
#[repr(C)]
struct Beginning {
    kind: u32,
    /// For copies, the direction comes first.
    details: [u8; 4],
    more: u64,
    start: u64,
    end: u64,
}

/// What follows in records of kernels.
#[derive(Clone, Copy)]
#[repr(C)]
struct Kernel {
    beginning: Beginning,
    completed: u64,
    device: u32,
    context: u32,
    stream: u32,
    grid: [i32; 3],
    block: [i32; 3],
    shared: [i32; 2],
    local: [u32; 2],
    correlation: u32,
    grid_id: i64,
    name: *const c_char,
}

const _: () = assert!(std::mem::offset_of!(Beginning, start) == 16);
const _: () = assert!(std::mem::offset_of!(Kernel, stream) == 48);
const _: () = assert!(std::mem::offset_of!(Kernel, name) == 104);

/// A kernel, copy or memset, in CUPTI's nanoseconds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found<'r> {
    pub(super) name: Cow<'r, str>,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// Reads a record; `None` for other kinds and for what had not ended.
///
/// # Safety
/// `record` must point at a whole record of CUPTI, and a kernel's name must live as long as `'r`.
pub(super) unsafe fn read<'r>(record: *const u8) -> Option<Found<'r>> {
    // SAFETY: all records are at least a kind; those of these kinds have the fields above.
    let kind = unsafe { record.cast::<u32>().read_unaligned() };
    if !matches!(kind, MEMCPY | MEMSET | KERNEL | CONCURRENT_KERNEL) {
        return None;
    }
    // SAFETY: as above.
    let beginning = unsafe { record.cast::<Beginning>().read_unaligned() };
    let name = match (kind, beginning.details[0]) {
        (MEMCPY, 1) => Cow::Borrowed("copy to the device"),
        (MEMCPY, 2) => Cow::Borrowed("copy to the host"),
        (MEMCPY, _) => Cow::Borrowed("copy"),
        (MEMSET, _) => Cow::Borrowed("clear"),
        _ => {
            // SAFETY: a record of a kernel; its name is zero-terminated.
            let name = unsafe { record.cast::<Kernel>().read_unaligned().name };
            if name.is_null() {
                Cow::Borrowed("a kernel without a name")
            } else {
                // SAFETY: as above, and the caller's promise.
                unsafe { CStr::from_ptr(name) }.to_string_lossy()
            }
        }
    };
    (beginning.start > 0 && beginning.end >= beginning.start).then_some(Found {
        name,
        start: beginning.start,
        end: beginning.end,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record as CUPTI 13.0 lays it out: 216 bytes for a kernel.
    fn record(kind: u32, detail: u8, times: (u64, u64), name: *const c_char) -> Vec<u8> {
        let mut bytes = vec![0xAA; 216];
        bytes[..4].copy_from_slice(&kind.to_ne_bytes());
        bytes[4] = detail;
        bytes[16..24].copy_from_slice(&times.0.to_ne_bytes());
        bytes[24..32].copy_from_slice(&times.1.to_ne_bytes());
        bytes[104..112].copy_from_slice(&(name as usize).to_ne_bytes());
        bytes
    }

    #[test]
    fn kernels_and_copies_are_read_and_nothing_else() {
        let name = c"attend_split_128";
        for (kind, detail, times, expected) in [
            (CONCURRENT_KERNEL, 0, (100, 250), Some("attend_split_128")),
            (KERNEL, 0, (100, 100), Some("attend_split_128")),
            (MEMCPY, 1, (5, 6), Some("copy to the device")),
            (MEMCPY, 2, (5, 6), Some("copy to the host")),
            (MEMCPY, 8, (5, 6), Some("copy")),
            (MEMSET, 0, (5, 6), Some("clear")),
            // still running when the buffer was given back
            (CONCURRENT_KERNEL, 0, (0, 0), None),
            (CONCURRENT_KERNEL, 0, (100, 0), None),
            // a record of another kind
            (4, 0, (100, 250), None),
        ] {
            // one byte off: buffers owe us no alignment
            let mut buffer = vec![0; 1];
            buffer.extend(record(kind, detail, times, name.as_ptr()));
            // SAFETY: a whole record of our own making.
            let found = unsafe { read(buffer[1..].as_ptr()) };
            let wanted = expected.map(|name| Found {
                name: name.into(),
                start: times.0,
                end: times.1,
            });
            assert_eq!(found, wanted, "kind {kind}");
        }
    }

    #[test]
    fn a_kernel_without_a_name_is_still_a_kernel() {
        let bytes = record(CONCURRENT_KERNEL, 0, (1, 2), std::ptr::null());
        // SAFETY: a whole record of our own making.
        let found = unsafe { read(bytes.as_ptr()) }.expect("a kernel");
        assert_eq!(found.name, "a kernel without a name");
    }
}
