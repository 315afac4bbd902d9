//! What the driver reports of GPUs before one is opened, and which of our kernels run on them.

use std::fmt;

use cudarc::driver::sys;
use ops::DeviceError;

use crate::context::Context;
use crate::driver::check;
use crate::library::Absent;

/// The one compute capability that kernels with Hopper's own instructions run on: newer GPUs lack them again.
const HOPPER: Capability = Capability(9, 0);
/// The least that the other kernels need.
const LEAST: Capability = Capability(8, 0);

/// The release of CUDA that kernels and libraries are of, as drivers count: those before it load neither.
const LEAST_DRIVER: Release = Release(13_000);

/// A release of CUDA, as drivers count: a thousand for each major number, ten for each minor one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(i32);

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 10)
    }
}

/// Major and minor number of what a GPU can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Capability(pub usize, pub usize);

/// What kernels are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Hopper's own instructions, for attention and GEMMs.
    Hopper,
    /// What all GPUs from Ampere on have; GEMMs are cuBLASLt's.
    Ampere,
}

impl Generation {
    /// The kernels that GPUs of this capability run best; none where there are no such kernels.
    fn of(capability: Capability) -> Option<Self> {
        if capability == HOPPER {
            return Some(Self::Hopper);
        }
        (capability >= LEAST).then_some(Self::Ampere)
    }
}

impl Capability {
    /// True where none of the code in the build runs: kernels come as text.
    pub(crate) fn gets_text(self) -> bool {
        self.0 > HOPPER.0
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// A GPU that the driver sees.
pub(crate) struct Card {
    pub(crate) device: sys::CUdevice,
    name: String,
    pub(crate) capability: Capability,
    /// As `CUDA_VISIBLE_DEVICES` takes it, whatever that holds now.
    id: String,
}

impl Card {
    /// Those that the driver sees, in its order.
    pub(crate) fn all() -> Result<Vec<Self>, Absent> {
        let (mut count, mut version) = (0, 0);
        // SAFETY: the driver is loaded (the caller checked).
        unsafe {
            let started = sys::cuInit(0);
            // a driver without GPUs, or with all of them hidden, does not start
            if started == sys::CUresult::CUDA_ERROR_NO_DEVICE {
                return Ok(Vec::new());
            }
            check(started, "starting the driver")?;
            check(sys::cuDeviceGetCount(&raw mut count), "counting GPUs")?;
            let told = sys::cuDriverGetVersion(&raw mut version);
            check(told, "asking the driver's release")?;
        }
        new_enough(Release(version))?;
        Ok((0..count).map(Self::at).collect::<Result<_, _>>()?)
    }

    fn at(ordinal: i32) -> Result<Self, DeviceError> {
        use sys::CUdevice_attribute as Attribute;
        let (mut device, mut uuid) = (0, sys::CUuuid { bytes: [0; 16] });
        // SAFETY: the driver was started, and every out-pointer is valid.
        unsafe {
            let found = sys::cuDeviceGet(&raw mut device, ordinal);
            check(found, "finding the GPU")?;
            let told = sys::cuDeviceGetUuid_v2(&raw mut uuid, device);
            check(told, "asking the GPU's number")?;
        }
        let major = Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
        let minor = Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR;
        Ok(Self {
            device,
            name: name(device)?,
            capability: Capability(attribute(device, major)?, attribute(device, minor)?),
            id: id(uuid.bytes.map(|byte| byte as u8)),
        })
    }

    /// Kernels for it, of those that have run on GPUs of its kind; with `untried` the others too.
    fn generation(&self, untried: bool) -> Option<Generation> {
        let generation = Generation::of(self.capability);
        generation.filter(|generation| untried || *generation == Generation::Hopper)
    }
}

/// The first card, which is the one that is used, with the kernels for it. Those that were never run on GPUs of its kind are
/// taken where `untried` ones may be.
pub(crate) fn first(cards: &[Card], untried: bool) -> Result<(&Card, Generation), Absent> {
    let card = cards.first().ok_or(Absent::NoDevice)?;
    if let Some(generation) = card.generation(untried) {
        return Ok((card, generation));
    }
    let other = cards.iter().find(|card| card.generation(untried).is_some());
    let other = other.map(|card| (card.name.clone(), card.id.clone()));
    let (name, capability) = (card.name.clone(), card.capability);
    Err(match Generation::of(capability) {
        Some(_) => Absent::Untried {
            name,
            capability,
            other,
        },
        None => Absent::Unsuited {
            name,
            capability,
            needed: LEAST,
            other,
        },
    })
}

fn new_enough(found: Release) -> Result<(), Absent> {
    let needed = LEAST_DRIVER;
    if found < needed {
        return Err(Absent::OldDriver { found, needed });
    }
    Ok(())
}

/// What the maker calls a GPU.
pub(crate) fn name(device: sys::CUdevice) -> Result<String, DeviceError> {
    let mut name = [0 as std::ffi::c_char; 256];
    // SAFETY: the driver writes at most 256 bytes, zero-terminated.
    let result = unsafe { sys::cuDeviceGetName(name.as_mut_ptr(), 256, device) };
    check(result, "asking the GPU's name")?;
    // SAFETY: zero-terminated by the driver.
    let name = unsafe { std::ffi::CStr::from_ptr(name.as_ptr()) };
    Ok(name.to_string_lossy().into_owned())
}

/// A number that the driver knows of a GPU.
pub(crate) fn attribute(
    device: sys::CUdevice,
    attribute: sys::CUdevice_attribute,
) -> Result<usize, DeviceError> {
    let mut value = 0;
    // SAFETY: a valid out-pointer and a device that was found.
    let result = unsafe { sys::cuDeviceGetAttribute(&raw mut value, attribute, device) };
    check(result, "asking the GPU's facts")?;
    Ok(usize::try_from(value).unwrap_or(0))
}

/// As the maker's tools write a GPU's number.
fn id(bytes: [u8; 16]) -> String {
    let parts = [0..4, 4..6, 6..8, 8..10, 10..16];
    let part = |range: std::ops::Range<usize>| {
        let digits = bytes[range].iter().map(|byte| format!("{byte:02x}"));
        digits.collect::<String>()
    };
    format!("GPU-{}", parts.map(part).join("-"))
}

/// Bytes a second that kernels of any maker were seen to read: measured where we could, else nine tenths of what clock and
/// width of the memory promise.
pub(crate) fn bandwidth(context: &Context) -> Result<Option<f64>, DeviceError> {
    use sys::CUdevice_attribute as Attribute;
    if let Some(measured) = measured_bandwidth(&context.name()?) {
        return Ok(Some(measured));
    }
    // a driver that does not report it ends nothing: it is for a figure
    let told = |which| context.attribute(which).unwrap_or(0);
    let kilohertz = told(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
    let bits = told(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
    // twice a clock
    let promised = 2.0 * 1e3 * kilohertz as f64 * (bits / 8) as f64;
    Ok((promised > 0.0).then_some(0.9 * promised))
}

/// Of GPUs that we have measured, by name.
fn measured_bandwidth(name: &str) -> Option<f64> {
    // "GH200" is another memory
    let is_h200 = name.split_whitespace().any(|word| word == "H200");
    is_h200.then_some(4.38e12)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(name: &str, major: usize, minor: usize, number: u8) -> Card {
        Card {
            device: 0,
            name: name.into(),
            capability: Capability(major, minor),
            id: id([number; 16]),
        }
    }

    fn said(cards: &[Card], untried: bool) -> String {
        let refused = first(cards, untried).err();
        refused.expect("no kernels for it").to_string()
    }

    #[test]
    fn kernels_are_chosen_by_capability_and_others_are_told_what_is_needed() {
        for (capability, expected) in [
            ((9, 0), Some(Generation::Hopper)),
            ((8, 0), Some(Generation::Ampere)),
            ((8, 9), Some(Generation::Ampere)),
            ((9, 1), Some(Generation::Ampere)),
            ((12, 0), Some(Generation::Ampere)),
            ((7, 5), None),
        ] {
            let cards = [card("A card", capability.0, capability.1, 1)];
            let found = first(&cards, true).map(|(_, generation)| generation).ok();
            assert_eq!(found, expected, "{capability:?}");
        }
        let old = said(&[card("A card", 7, 5, 1)], true);
        let facts = ["A card", "7.5", "8.0"];
        assert!(facts.iter().all(|fact| old.contains(fact)), "{old}");
        assert!(!old.contains("CUDA_VISIBLE_DEVICES"), "{old}");
        assert!(matches!(first(&[], true), Err(Absent::NoDevice)));
    }

    #[test]
    fn a_driver_of_an_older_release_is_told_with_what_is_needed() {
        let said = new_enough(Release(12_040))
            .expect_err("too old")
            .to_string();
        assert!(
            said.contains("CUDA 12.4") && said.contains("CUDA 13.0"),
            "{said}"
        );
        assert!(new_enough(Release(13_000)).is_ok() && new_enough(Release(13_020)).is_ok());
    }

    #[test]
    fn a_card_that_kernels_were_never_run_on_is_taken_only_when_asked_for() {
        let cards = [card("NVIDIA L4", 8, 9, 1)];
        let said = said(&cards, false);
        let facts = ["NVIDIA L4", "8.9", "--device cuda"];
        assert!(facts.iter().all(|fact| said.contains(fact)), "{said}");
        assert!(first(&cards, true).is_ok());
    }

    #[test]
    fn another_card_that_would_do_is_named_with_how_to_use_it() {
        let cards = [
            card("Old", 7, 0, 1),
            card("New", 12, 0, 2),
            card("Right", 9, 0, 0xab),
        ];
        let way = "CUDA_VISIBLE_DEVICES=GPU-abababab-abab-abab-abab-abababababab";
        for cards in [&cards[..], &cards[1..]] {
            let said = said(cards, false);
            assert!(said.contains("Right") && said.contains(way), "{said}");
        }
        assert!(said(&cards, true).contains("New"));
        assert!(first(&cards[2..], false).is_ok());
    }

    #[test]
    fn a_measured_rate_is_of_cards_of_that_name_alone() {
        for (name, known) in [
            ("NVIDIA H200", true),
            ("NVIDIA H200 NVL", true),
            ("NVIDIA GH200 144G HBM3e", false),
            ("NVIDIA GH200 480GB", false),
            ("NVIDIA H100 80GB HBM3", false),
        ] {
            assert_eq!(measured_bandwidth(name).is_some(), known, "{name}");
        }
    }
}
