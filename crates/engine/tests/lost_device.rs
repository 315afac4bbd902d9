//! A device that breaks while it serves, or has less memory than it said: a whole rank over it, and what clients see.

mod tiny;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::{EngineHandle, EngineThread, RequestError, TokenEvent};
use executor::Rank;
use ops::{Device, DeviceError, OpError, Readback, ReferenceDevice, Staging};
use tensor::{Buffer, View};
use testkit::detour::{Detour, Detoured};

use crate::tiny::request;

/// Where the device breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Breaks {
    /// Results of a step do not arrive.
    Fetching,
    /// Inputs of a step do not leave.
    Sending,
    /// Keys and values find no room.
    Memory,
    /// Nor do results on the host.
    Pinned,
}

/// The reference, until `left` transfers are done.
struct Fragile {
    inner: ReferenceDevice,
    breaks: Breaks,
    left: Arc<AtomicUsize>,
}

fn lost() -> DeviceError {
    DeviceError::Lost {
        device: "the fragile device".into(),
        message: "fell off the bus".into(),
    }
}

fn no_room(what: &'static str, wanted: usize) -> DeviceError {
    DeviceError::OutOfMemory {
        device: "the fragile device".into(),
        what,
        wanted,
        free: 100,
    }
}

/// One transfer less.
fn count_down(left: &AtomicUsize) -> Result<(), DeviceError> {
    let down = |left: usize| left.checked_sub(1);
    left.fetch_update(Ordering::AcqRel, Ordering::Acquire, down)
        .map(drop)
        .map_err(|_| lost())
}

impl Detour for Fragile {
    type Inner = ReferenceDevice;

    fn inner(&self) -> &ReferenceDevice {
        &self.inner
    }
    fn allocate(&self, bytes: usize, what: &'static str) -> Result<Buffer, DeviceError> {
        if self.breaks == Breaks::Memory && what == "keys and values" {
            return Err(no_room(what, bytes));
        }
        self.inner.allocate(bytes, what)
    }
    fn staging(&self, bytes: usize) -> Result<Box<dyn Staging>, DeviceError> {
        Ok(Box::new(FragileStaging(
            self.inner.staging(bytes)?,
            (self.breaks == Breaks::Sending).then(|| Arc::clone(&self.left)),
        )))
    }
    fn readback(&self, bytes: usize) -> Result<Box<dyn Readback>, DeviceError> {
        if self.breaks == Breaks::Pinned {
            return Err(no_room("pinned memory", bytes));
        }
        Ok(Box::new(FragileReadback(
            self.inner.readback(bytes)?,
            (self.breaks == Breaks::Fetching).then(|| Arc::clone(&self.left)),
        )))
    }
}

struct FragileStaging(Box<dyn Staging>, Option<Arc<AtomicUsize>>);

impl Staging for FragileStaging {
    fn host(&mut self) -> Result<&mut [u8], DeviceError> {
        self.0.host()
    }
    fn send(&mut self, bytes: usize) -> Result<(), DeviceError> {
        self.1.as_deref().map_or(Ok(()), count_down)?;
        self.0.send(bytes)
    }
    fn device(&self) -> View<'_> {
        self.0.device()
    }
}

struct FragileReadback(Box<dyn Readback>, Option<Arc<AtomicUsize>>);

impl Readback for FragileReadback {
    fn bytes(&self) -> usize {
        self.0.bytes()
    }
    fn fetch(&mut self, from: View<'_>, offset: usize) -> Result<(), DeviceError> {
        self.0.fetch(from, offset)
    }
    fn seal(&mut self) -> Result<(), DeviceError> {
        self.0.seal()
    }
    fn wait(&mut self) -> Result<&[u8], DeviceError> {
        self.1.as_deref().map_or(Ok(()), count_down)?;
        self.0.wait()
    }
}

fn rank(breaks: Breaks, transfers: usize) -> Result<Rank, OpError> {
    tiny::rank(Detoured(Fragile {
        inner: ReferenceDevice::default(),
        breaks,
        left: Arc::new(AtomicUsize::new(transfers)),
    }))
}

fn start(breaks: Breaks, transfers: usize) -> (EngineHandle, EngineThread) {
    tiny::start(rank(breaks, transfers).expect("memory"))
}

#[tokio::test]
async fn a_device_lost_in_the_middle_of_a_step_fails_everybody_and_says_why() {
    for breaks in [Breaks::Fetching, Breaks::Sending] {
        let (engine, thread) = start(breaks, 9);
        let mut streams = Vec::new();
        for first in 1..=3 {
            let stream = engine.generate(request(&[first, 2, 3], 50));
            streams.push(stream.expect("accepted"));
        }
        for mut stream in streams {
            let mut last = None;
            while let Some(event) = stream.next().await {
                last = Some(event);
            }
            let Some(TokenEvent::Failed(failed)) = last else {
                panic!("{breaks:?}: {last:?}")
            };
            assert!(failed.message.contains("fell off the bus"), "{failed}");
        }
        let ended = thread.stop().expect_err("the device is lost");
        assert!(ended.message.contains("fell off the bus"), "{ended}");
        assert!(!engine.is_healthy());
        let refused = engine.generate(request(&[1], 1)).err();
        assert_eq!(refused, Some(RequestError::ShuttingDown));
    }
}

#[test]
fn memory_that_is_not_there_is_told_with_its_purpose_and_size() {
    for (breaks, expected, bytes) in [
        // two layers of keys and values, 257 slots of one head of 8 floats
        (Breaks::Memory, "keys and values", 2 * 2 * 257 * 8 * 4),
        // 4 tokens, 4096 scores, and for 4 rows all that they may ask
        (Breaks::Pinned, "pinned memory", 4 * (4 + 4096 + 4 * 1537)),
    ] {
        let error = rank(breaks, 0).err().expect("no memory");
        let OpError::Device(DeviceError::OutOfMemory {
            what, wanted, free, ..
        }) = error
        else {
            panic!("{error}")
        };
        assert_eq!((what, wanted, free), (expected, bytes, 100));
    }
}
