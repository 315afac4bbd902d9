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

    fn begin(&self) -> Result<(), NoTracer> {
        Sink::lock().open(self.next_record);
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

    fn end(&self) -> Result<DeviceTrace, NoTracer> {
        for kind in KINDS {
            // SAFETY: takes any number.
            check(unsafe { (self.disable)(kind) }, "ending the recording")?;
        }
        // SAFETY: calls back into the sink, which is not locked here.
        check(unsafe { (self.flush)(FLUSH_FORCED) }, "fetching records")?;
        Ok(Sink::lock().close())
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
        if cupti.is_none() {
            *cupti = Some(Cupti::open(&self.folders)?);
        }
        cupti.as_ref().expect("opened above").begin()
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
}
