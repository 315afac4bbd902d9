//! Where CUPTI's records go: its callbacks have no place for an owner, so there is one for the process.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ops::{DeviceSpan, DeviceTrace};

use super::record::{Found, read};

/// Bytes of a buffer: some forty thousand kernels.
const BUFFER: usize = 8 << 20;
/// The most kernels of a recording.
const MOST: usize = 2_000_000;

/// `cuptiActivityGetNextRecord`
pub(super) type NextRecord = unsafe extern "C" fn(*mut u8, usize, *mut *mut u8) -> i32;

/// A recording on its way.
pub(super) struct Sink {
    next: Option<NextRecord>,
    /// CUPTI's time when the recording began.
    origin: u64,
    /// Names, beginnings and ends in CUPTI's time.
    spans: Vec<(Arc<str>, u64, u64)>,
    names: BTreeMap<String, Arc<str>>,
    dropped: u64,
}

static SINK: Mutex<Sink> = Mutex::new(Sink::new());

impl Sink {
    const fn new() -> Self {
        Self {
            next: None,
            origin: 0,
            spans: Vec::new(),
            names: BTreeMap::new(),
            dropped: 0,
        }
    }

    pub(super) fn lock() -> MutexGuard<'static, Self> {
        SINK.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets everything.
    pub(super) fn open(&mut self, next: NextRecord) {
        *self = Self {
            next: Some(next),
            ..Self::new()
        };
    }

    /// The recording begins: what began before does not count.
    pub(super) fn begin(&mut self, origin: u64) {
        self.origin = origin;
    }

    /// True while somebody wants records.
    #[cfg(test)]
    pub(super) fn is_open(&self) -> bool {
        self.next.is_some()
    }

    /// The recording, in order.
    pub(super) fn close(&mut self) -> DeviceTrace {
        let all = std::mem::replace(self, Self::new());
        let since = |time: u64| Duration::from_nanos(time - all.origin);
        let mut spans: Vec<DeviceSpan> = all
            .spans
            .into_iter()
            .filter(|(_, start, _)| *start >= all.origin)
            .map(|(name, start, end)| DeviceSpan {
                name,
                start: since(start),
                end: since(end),
            })
            .collect();
        spans.sort_by_key(|span| span.start);
        DeviceTrace {
            spans,
            dropped: all.dropped,
        }
    }

    fn add(&mut self, found: &Found<'_>) {
        if self.spans.len() == MOST {
            self.dropped += 1;
            return;
        }
        let name = if let Some(name) = self.names.get(found.name.as_ref()) {
            Arc::clone(name)
        } else {
            let name: Arc<str> = Arc::from(found.name.as_ref());
            self.names
                .insert(found.name.clone().into_owned(), Arc::clone(&name));
            name
        };
        self.spans.push((name, found.start, found.end));
    }

    /// Takes all records of a buffer.
    ///
    /// # Safety
    /// CUPTI, or a test in its place, must have written `bytes` bytes of records at `buffer`.
    unsafe fn take(&mut self, buffer: *mut u8, bytes: usize) {
        let Some(next) = self.next else { return };
        let mut record = std::ptr::null_mut();
        // SAFETY: the caller's promise; names of kernels live as long as the process.
        unsafe {
            while next(buffer, bytes, &raw mut record) == 0 {
                if let Some(found) = read(record) {
                    self.add(&found);
                }
            }
        }
    }
}

fn layout() -> Layout {
    Layout::from_size_align(BUFFER, 8).expect("a small power of two")
}

/// CUPTI asks for a buffer.
pub(super) unsafe extern "C" fn requested(
    buffer: *mut *mut u8,
    size: *mut usize,
    most: *mut usize,
) {
    // SAFETY: valid out-pointers; a buffer of no bytes tells CUPTI that there is none.
    unsafe {
        *buffer = alloc(layout());
        *size = if (*buffer).is_null() { 0 } else { BUFFER };
        *most = 0;
    }
}

/// CUPTI gives a buffer back.
pub(super) unsafe extern "C" fn completed(
    _context: *mut std::ffi::c_void,
    _stream: u32,
    buffer: *mut u8,
    _size: usize,
    bytes: usize,
) {
    if buffer.is_null() {
        return;
    }
    // SAFETY: a buffer that `requested` made, filled by CUPTI.
    unsafe {
        Sink::lock().take(buffer, bytes);
        dealloc(buffer, layout());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of 216 bytes, one after the other.
    unsafe extern "C" fn next(buffer: *mut u8, bytes: usize, record: *mut *mut u8) -> i32 {
        // SAFETY: as the test calls it.
        unsafe {
            let at = if (*record).is_null() {
                0
            } else {
                (*record).offset_from(buffer) as usize + 216
            };
            if at + 216 > bytes {
                return 12;
            }
            *record = buffer.add(at);
            0
        }
    }

    #[test]
    fn a_buffer_of_records_becomes_spans_in_order_from_the_beginning_on() {
        let mut buffer = Vec::new();
        for (name, start, end) in [
            (c"later", 2000_u64, 2500_u64),
            (c"first", 1000, 1600),
            (c"before the recording", 900, 1700),
            (c"later", 3000, 3001),
        ] {
            let mut record = vec![0u8; 216];
            record[0] = 10;
            record[16..24].copy_from_slice(&start.to_ne_bytes());
            record[24..32].copy_from_slice(&end.to_ne_bytes());
            record[104..112].copy_from_slice(&(name.as_ptr() as usize).to_ne_bytes());
            buffer.extend(record);
        }
        let mut sink = Sink::new();
        sink.open(next);
        sink.begin(1000);
        // SAFETY: whole records of our own making.
        unsafe { sink.take(buffer.as_mut_ptr(), buffer.len()) };
        let trace = sink.close();
        let seen: Vec<_> = trace
            .spans
            .iter()
            .map(|span| (&*span.name, span.start.as_nanos(), span.end.as_nanos()))
            .collect();
        let expected = [
            ("first", 0, 600),
            ("later", 1000, 1500),
            ("later", 2000, 2001),
        ];
        assert_eq!((seen.as_slice(), trace.dropped), (&expected[..], 0));
        assert!(Arc::ptr_eq(&trace.spans[1].name, &trace.spans[2].name));
        assert_eq!(sink.close(), DeviceTrace::default());
    }
}
