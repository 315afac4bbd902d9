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
    /// It is an old spelling of something else.
    Retired(Substitute),
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

/// A flag that stands for another.
pub(super) const fn retired(substitute: Substitute, name: &'static str) -> Entry {
    Entry {
        flag: FlagSpec::switch(name, ""),
        effect: Effect::Retired(substitute),
    }
}
