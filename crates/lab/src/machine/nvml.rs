//! NVIDIA's management library: what GPUs there are and how they are doing. It is opened when it is
//! there and never asked for otherwise.
#![expect(
    unsafe_code,
    reason = "the library is written in C and opened while the program runs"
)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::mem::transmute_copy;
use std::sync::OnceLock;

/// As the loader knows it, else where containers mount the driver.
const PLACES: &[&CStr] = &[
    c"libnvidia-ml.so.1",
    c"/usr/local/nvidia/lib64/libnvidia-ml.so.1",
    c"/usr/local/nvidia/lib/libnvidia-ml.so.1",
    c"/usr/lib64-nvidia/libnvidia-ml.so.1",
];
/// The clock of the multiprocessors, by the library's counting.
const SM_CLOCK: c_uint = 1;
/// The sensor on the chip.
const ON_CHIP: c_uint = 0;
/// Longer names than this are cut by the library.
const TEXT: usize = 96;

type Status = c_int;
type Handle = *mut c_void;
type Start = unsafe extern "C" fn() -> Status;
type Number = unsafe extern "C" fn(*mut c_uint) -> Status;
type ByIndex = unsafe extern "C" fn(c_uint, *mut Handle) -> Status;
type OwnText = unsafe extern "C" fn(*mut c_char, c_uint) -> Status;
type Text = unsafe extern "C" fn(Handle, *mut c_char, c_uint) -> Status;
type Memory = unsafe extern "C" fn(Handle, *mut [c_ulonglong; 3]) -> Status;
type OfKind = unsafe extern "C" fn(Handle, c_uint, *mut c_uint) -> Status;
type Plain = unsafe extern "C" fn(Handle, *mut c_uint) -> Status;
type Mask = unsafe extern "C" fn(Handle, *mut c_ulonglong) -> Status;

/// The library, open.
#[derive(Debug)]
pub(super) struct Nvml {
    devices: Vec<Device>,
    driver: String,
    name: Text,
    memory: Memory,
    clock: OfKind,
    highest_clock: OfKind,
    temperature: OfKind,
    power: Plain,
    reasons: Mask,
}

/// A GPU.
#[derive(Debug, Clone, Copy)]
struct Device(Handle);

// SAFETY: a handle is a name that the library gives; the library may be called from any thread.
unsafe impl Send for Device {}
// SAFETY: as above; nothing behind the handle is touched by us.
unsafe impl Sync for Device {}

/// How a GPU is doing at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    /// In MHz.
    pub(super) clock: f64,
    /// What it may reach, in MHz.
    pub(super) highest_clock: f64,
    /// In degrees Celsius.
    pub(super) temperature: f64,
    /// In watts.
    pub(super) power: f64,
    /// Why its clock is not higher, as the driver's mask.
    pub(super) reasons: u64,
}

impl Nvml {
    /// The library of this machine, opened once; nothing when there is none or no GPU.
    pub(super) fn here() -> Option<&'static Self> {
        static HERE: OnceLock<Option<Nvml>> = OnceLock::new();
        HERE.get_or_init(Self::open).as_ref()
    }

    fn open() -> Option<Self> {
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL;
        // SAFETY: zero-terminated names; the library stays open for the life of the process.
        let mut found = PLACES
            .iter()
            .map(|name| unsafe { libc::dlopen(name.as_ptr(), flags) });
        let library = found.find(|library| !library.is_null())?;
        // SAFETY: every symbol is called with the signature that the library's header gives it.
        unsafe {
            let start: Start = symbol(library, c"nvmlInit_v2")?;
            let count: Number = symbol(library, c"nvmlDeviceGetCount_v2")?;
            let by_index: ByIndex = symbol(library, c"nvmlDeviceGetHandleByIndex_v2")?;
            let driver: OwnText = symbol(library, c"nvmlSystemGetDriverVersion")?;
            answer(start())?;
            let mut devices = Vec::new();
            let mut number = 0;
            answer(count(&raw mut number))?;
            for index in 0..number {
                let mut handle = std::ptr::null_mut();
                if answer(by_index(index, &raw mut handle)).is_some() {
                    devices.push(Device(handle));
                }
            }
            let driver = text(|room, size| driver(room, size)).unwrap_or_default();
            (!devices.is_empty()).then_some(Self {
                devices,
                driver,
                name: symbol(library, c"nvmlDeviceGetName")?,
                memory: symbol(library, c"nvmlDeviceGetMemoryInfo")?,
                clock: symbol(library, c"nvmlDeviceGetClockInfo")?,
                highest_clock: symbol(library, c"nvmlDeviceGetMaxClockInfo")?,
                temperature: symbol(library, c"nvmlDeviceGetTemperature")?,
                power: symbol(library, c"nvmlDeviceGetPowerUsage")?,
                reasons: symbol(library, c"nvmlDeviceGetCurrentClocksThrottleReasons")?,
            })
        }
    }

    /// A line for each GPU: its name, the driver, its memory.
    pub(super) fn names(&self) -> Vec<String> {
        let lines = self.devices.iter().map(|device| {
            let mut memory = [0; 3];
            // SAFETY: a handle of this library and room of the size that is given.
            let name = text(|room, size| unsafe { (self.name)(device.0, room, size) });
            // SAFETY: a handle of this library and three numbers, as its structure has.
            let known = answer(unsafe { (self.memory)(device.0, &raw mut memory) });
            let memory = known.map_or(0, |()| memory[0]) >> 20;
            let name = name.unwrap_or_else(|| "unknown GPU".to_owned());
            format!("{name}, driver {}, {memory} MiB", self.driver)
        });
        lines.collect()
    }

    /// How each GPU is doing now; those that do not say are left out.
    pub(super) fn samples(&self) -> Vec<Sample> {
        let samples = self.devices.iter().map(|device| {
            let of_kind = |ask: OfKind, kind: c_uint| {
                let mut value = 0;
                // SAFETY: a handle of this library and room for one number.
                answer(unsafe { ask(device.0, kind, &raw mut value) }).map(|()| f64::from(value))
            };
            let (mut power, mut reasons) = (0, 0);
            // SAFETY: a handle of this library and room for one number.
            answer(unsafe { (self.power)(device.0, &raw mut power) })?;
            // SAFETY: a handle of this library and room for one mask.
            answer(unsafe { (self.reasons)(device.0, &raw mut reasons) })?;
            Some(Sample {
                clock: of_kind(self.clock, SM_CLOCK)?,
                highest_clock: of_kind(self.highest_clock, SM_CLOCK)?,
                temperature: of_kind(self.temperature, ON_CHIP)?,
                power: f64::from(power) / 1000.0,
                reasons,
            })
        });
        samples.flatten().collect()
    }
}

/// A function of the library.
///
/// # Safety
/// `Function` is the type of a C function pointer with the signature of the symbol.
unsafe fn symbol<Function>(library: *mut c_void, name: &CStr) -> Option<Function> {
    // SAFETY: an open library and a zero-terminated name.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    // SAFETY: pointers to functions and to data have the same size here; the caller vouches for the
    // signature.
    (!found.is_null()).then(|| unsafe { transmute_copy(&found) })
}

fn answer(status: Status) -> Option<()> {
    (status == 0).then_some(())
}

/// A text that a function writes into the room it is given.
fn text(ask: impl FnOnce(*mut c_char, c_uint) -> Status) -> Option<String> {
    let mut room = [0u8; TEXT];
    answer(ask(room.as_mut_ptr().cast(), TEXT as c_uint))?;
    let written = CStr::from_bytes_until_nul(&room).ok()?;
    Some(written.to_string_lossy().into_owned())
}
