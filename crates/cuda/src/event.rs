//! Points in the stream that the host can wait for.

use std::sync::Arc;

use cudarc::driver::sys;
use ops::DeviceError;

use crate::context::Context;
use crate::driver::check;

/// A point in the stream.
pub(crate) struct Event {
    event: sys::CUevent,
    context: Arc<Context>,
}

// SAFETY: event handles may be used from any thread.
unsafe impl Send for Event {}

impl Event {
    pub(crate) fn new(context: &Arc<Context>, timed: bool) -> Result<Self, DeviceError> {
        context.enter()?;
        let mut event = std::ptr::null_mut();
        let flags = if timed {
            0
        } else {
            sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32
        };
        // SAFETY: a valid out-pointer; the context is current.
        let result = unsafe { sys::cuEventCreate(&raw mut event, flags) };
        check(result, "making an event")?;
        Ok(Self {
            event,
            context: Arc::clone(context),
        })
    }

    /// Moves the event to the end of what is enqueued.
    pub(crate) fn record(&self) -> Result<(), DeviceError> {
        // SAFETY: event and stream live as long as self.
        let result = unsafe { sys::cuEventRecord(self.event, self.context.stream()) };
        check(result, "recording an event")
    }

    /// Waits until the stream has passed the event.
    pub(crate) fn wait(&self) -> Result<(), DeviceError> {
        self.context.enter()?;
        // SAFETY: the event lives as long as self.
        let result = unsafe { sys::cuEventSynchronize(self.event) };
        check(result, "waiting for the GPU")
    }

    /// Milliseconds of device time from `earlier` to this event; both must have passed.
    pub(crate) fn since(&self, earlier: &Self) -> Result<f32, DeviceError> {
        let mut milliseconds = 0.0;
        // SAFETY: two events that were recorded with timing.
        let result =
            unsafe { sys::cuEventElapsedTime_v2(&raw mut milliseconds, earlier.event, self.event) };
        check(result, "timing")?;
        Ok(milliseconds)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made in `new` and destroyed once; errors at the end cannot be handled.
        unsafe {
            let _ = self.context.enter();
            let _ = sys::cuEventDestroy_v2(self.event);
        }
    }
}
