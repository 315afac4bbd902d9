//! Recording kernels through CUPTI, which is opened when the first recording begins.

mod record;
mod sink;

use std::ffi::{CStr, c_void};
use std::mem::transmute;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use ops::{DeviceTrace, NoTracer, Tracer};

use crate::library::{self, Library};
use record::{CONCURRENT_KERNEL, MEMCPY, MEMSET};
use sink::{NextRecord, Sink};

const LIBRARY: &str = "libcupti.so.13";
const KINDS: [u32; 3] = [CONCURRENT_KERNEL, MEMCPY, MEMSET];
/// Buffers come back with records of kernels that still run; those are left out.
const FLUSH_FORCED: u32 = 1;

type BufferRequested = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Register = unsafe extern "C" fn(BufferRequested, BufferCompleted) -> i32;
type Switch = unsafe extern "C" fn(u32) -> i32;
type Clock = unsafe extern "C" fn(*mut u64) -> i32;
type BufferCompleted = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

/// The functions of CUPTI that a recording needs.
struct Cupti {
    enable: Switch,
    disable: Switch,
    flush: Switch,
    timestamp: Clock,
    next_record: NextRecord,
}

impl Cupti {
    fn open(folders: &[PathBuf]) -> Result<Self, NoTracer> {
        let Some(library) = Library::open(LIBRARY, folders) else {
            return Err(NoTracer(library::missing(LIBRARY, folders).to_string()));
        };
        let find = |name: &CStr| {
            let missing = || NoTracer(format!("{LIBRARY} has no {}", name.to_string_lossy()));
            library.symbol(name).ok_or_else(missing)
        };
        // SAFETY: the types of these functions in CUPTI's own headers; the library stays open.
        let (register, cupti) = unsafe {
            let register = find(c"cuptiActivityRegisterCallbacks")?;
            let next_record = find(c"cuptiActivityGetNextRecord")?;
            let switch = |name| Ok(transmute::<*mut c_void, Switch>(find(name)?));
            let cupti = Self {
                enable: switch(c"cuptiActivityEnable")?,
                disable: switch(c"cuptiActivityDisable")?,
                flush: switch(c"cuptiActivityFlushAll")?,
                timestamp: transmute::<*mut c_void, Clock>(find(c"cuptiGetTimestamp")?),
                next_record: transmute::<*mut c_void, NextRecord>(next_record),
            };
            (transmute::<*mut c_void, Register>(register), cupti)
        };
        // SAFETY: two functions that live as long as the process.
        let registered = unsafe { register(sink::requested, sink::completed) };
        check(registered, "registering callbacks")?;
        Ok(cupti)
    }

    /// Begins a recording; one that cannot begin leaves nothing that takes time or memory.
    fn begin(&self) -> Result<(), NoTracer> {
        Sink::lock().open(self.next_record);
        let begun = self.enable_all();
        if begun.is_err() {
            // why it did not begin says more than why it cannot be undone
            let _ = self.disable_all();
            Sink::lock().close();
        }
        begun
    }

    fn enable_all(&self) -> Result<(), NoTracer> {
        for kind in KINDS {
            // SAFETY: takes any number.
            check(unsafe { (self.enable)(kind) }, "beginning to record")?;
        }
        let mut now = 0;
        // SAFETY: a valid out-pointer.
        check(unsafe { (self.timestamp)(&raw mut now) }, "asking the time")?;
        Sink::lock().begin(now);
        Ok(())
    }

    /// Every kind, also after one that refuses; then gives the first refusal.
    fn disable_all(&self) -> Result<(), NoTracer> {
        // SAFETY: takes any number.
        let answers = KINDS.map(|kind| unsafe { (self.disable)(kind) });
        let refused = answers.into_iter().find(|&answer| answer != 0);
        check(refused.unwrap_or(0), "ending the recording")
    }

    fn end(&self) -> Result<DeviceTrace, NoTracer> {
        let disabled = self.disable_all();
        // SAFETY: calls back into the sink, which is not locked here.
        let fetched = check(unsafe { (self.flush)(FLUSH_FORCED) }, "fetching records");
        let trace = Sink::lock().close();
        disabled.and(fetched).map(|()| trace)
    }
}

fn check(result: i32, what: &str) -> Result<(), NoTracer> {
    if result == 0 {
        return Ok(());
    }
    Err(NoTracer(format!("CUPTI, {what}: error {result}")))
}

/// Records kernels of this process.
pub(crate) struct CudaTracer {
    folders: Vec<PathBuf>,
    cupti: Mutex<Option<Cupti>>,
}

impl CudaTracer {
    pub(crate) fn new(folders: &[PathBuf]) -> Self {
        Self {
            folders: folders.to_vec(),
            cupti: Mutex::new(None),
        }
    }
}

impl Tracer for CudaTracer {
    fn begin(&self) -> Result<(), NoTracer> {
        let mut cupti = self.cupti.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = match cupti.take() {
            Some(cupti) => Ok(cupti),
            None => Cupti::open(&self.folders),
        };
        let begun = opened.and_then(|opened| cupti.insert(opened).begin());
        // The caller gets a recording of steps all the same, and would miss kernels only on opening it.
        begun.inspect_err(|reason| tracing::warn!("no kernels are recorded: {reason}"))
    }

    fn end(&self) -> Result<DeviceTrace, NoTracer> {
        let cupti = self.cupti.lock().unwrap_or_else(PoisonError::into_inner);
        match cupti.as_ref() {
            Some(cupti) => cupti.end(),
            None => Err(NoTracer("no recording was begun".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_library_a_recording_says_what_was_searched() {
        let tracer = CudaTracer::new(&[PathBuf::from("/nowhere/at/all")]);
        let refused = tracer.begin();
        // a machine may have the library
        if let Err(NoTracer(reason)) = &refused
            && reason.contains("not found")
        {
            assert!(
                reason.contains(LIBRARY) && reason.contains("/nowhere/at/all"),
                "{reason}"
            );
        }
        let never = CudaTracer::new(&[]);
        assert!(never.end().is_err());
    }

    /// Kinds that are enabled in the stand-in below.
    static ENABLED: Mutex<Vec<u32>> = Mutex::new(Vec::new());

    fn enabled() -> std::sync::MutexGuard<'static, Vec<u32>> {
        ENABLED.lock().unwrap_or_else(PoisonError::into_inner)
    }

    unsafe extern "C" fn enable(kind: u32) -> i32 {
        enabled().push(kind);
        0
    }

    /// The error of a process without the right to it.
    unsafe extern "C" fn refuse_copies(kind: u32) -> i32 {
        if kind == MEMCPY {
            return 35;
        }
        enabled().push(kind);
        0
    }

    unsafe extern "C" fn disable(kind: u32) -> i32 {
        enabled().retain(|&other| other != kind);
        i32::from(kind == MEMCPY)
    }

    unsafe extern "C" fn succeed(_: u32) -> i32 {
        0
    }

    unsafe extern "C" fn tell(now: *mut u64) -> i32 {
        // SAFETY: as `enable_all` calls it.
        unsafe { *now = 7 };
        0
    }

    unsafe extern "C" fn nothing(_: *mut u8, _: usize, _: *mut *mut u8) -> i32 {
        12
    }

    #[test]
    fn a_recording_that_cannot_begin_or_end_leaves_nothing_on() {
        let mut cupti = Cupti {
            enable: refuse_copies,
            disable,
            flush: succeed,
            timestamp: tell,
            next_record: nothing,
        };
        let NoTracer(reason) = cupti.begin().expect_err("copies are refused");
        assert!(reason.contains("error 35"), "{reason}");
        assert!(enabled().is_empty(), "{:?}", enabled());
        assert!(!Sink::lock().is_open());

        cupti.enable = enable;
        cupti.begin().expect("nothing is refused");
        assert!(Sink::lock().is_open());
        let NoTracer(reason) = cupti.end().expect_err("one kind will not end");
        assert!(reason.contains("error 1"), "{reason}");
        assert!(enabled().is_empty(), "{:?}", enabled());
        assert!(!Sink::lock().is_open());
    }
}
