//! A flag and what becomes of it.

use flags::FlagSpec;

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    /// Names, kind, default and help.
    pub(crate) flag: FlagSpec,
    /// What it does here.
    pub(crate) effect: Effect,
}

/// What a flag does here.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Effect {
    /// It is honoured.
    Honoured,
    /// It is accepted, and this is why it changes nothing.
    Idle(&'static str),
    /// It asks for what would change answers or is missing altogether: the command does not start, and this is why.
    Refused(&'static str),
    /// What it does depends on the device.
    ByDevice(ByDevice),
    /// It is an old spelling of something else.
    Retired(Substitute),
}

/// Why a flag changes nothing on a device; none where it is honoured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ByDevice {
    /// On the CPU.
    pub(crate) on_cpu: Option<&'static str>,
    /// On a GPU.
    pub(crate) on_gpu: Option<&'static str>,
}

impl Effect {
    /// Whether the flag does something, on one device at least.
    pub(super) fn is_honoured(&self) -> bool {
        match self {
            Self::Honoured => true,
            Self::ByDevice(reasons) => reasons.on_cpu.is_none() || reasons.on_gpu.is_none(),
            Self::Idle(_) | Self::Refused(_) | Self::Retired(_) => false,
        }
    }
}

/// What an old spelling stands for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Substitute {
    /// A flag with this value.
    Value(&'static str, &'static str),
    /// A flag with the value of another flag.
    CopyOf(&'static str, &'static str),
}

/// A flag that is honoured.
pub(super) const fn honoured(flag: FlagSpec) -> Entry {
    Entry {
        flag,
        effect: Effect::Honoured,
    }
}

/// A flag that is accepted and changes nothing, for this reason.
pub(super) const fn idle(reason: &'static str, flag: FlagSpec) -> Entry {
    Entry {
        flag,
        effect: Effect::Idle(reason),
    }
}

/// A flag that cannot be followed and must not be ignored, for this reason, which says what to do.
pub(super) const fn refused(reason: &'static str, flag: FlagSpec) -> Entry {
    Entry {
        flag,
        effect: Effect::Refused(reason),
    }
}

/// A flag that is honoured on the CPU and changes nothing on a GPU, for this reason.
pub(super) const fn for_cpu(reason: &'static str, flag: FlagSpec) -> Entry {
    by_device(None, Some(reason), flag)
}

/// A flag that is honoured on a GPU and changes nothing on the CPU, for this reason.
pub(super) const fn for_gpu(reason: &'static str, flag: FlagSpec) -> Entry {
    by_device(Some(reason), None, flag)
}

/// A flag that changes nothing on a device where there is a reason.
pub(super) const fn by_device(
    on_cpu: Option<&'static str>,
    on_gpu: Option<&'static str>,
    flag: FlagSpec,
) -> Entry {
    Entry {
        flag,
        effect: Effect::ByDevice(ByDevice { on_cpu, on_gpu }),
    }
}

/// A flag that stands for another.
pub(super) const fn retired(substitute: Substitute, name: &'static str) -> Entry {
    Entry {
        flag: FlagSpec::switch(name, ""),
        effect: Effect::Retired(substitute),
    }
}
