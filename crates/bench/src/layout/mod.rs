//! The printed tables, to the last blank: people and scripts read them by position.

mod frame;
mod lmdeploy;
mod reference;
mod strict;

pub use frame::Frame;
pub use lmdeploy::lmdeploy_table;
pub use reference::{Heading, reference_table};
pub use strict::{StrictHeading, strict_table};

use crate::release::Release;
use std::str::FromStr;

/// The layouts of the reference's table, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layout {
    /// Up to 0.5.3: no text and vision lines, no peaks, no time per output token.
    A,
    /// 0.5.4 and 0.5.5: text and vision lines.
    B,
    /// 0.5.6 and 0.5.7: peaks and time per output token.
    C,
    /// 0.5.8 to 0.5.12: percentiles of whole requests.
    D,
    /// From 0.5.13 on: more percentiles everywhere, goodput, cache hits.
    E,
}

impl Layout {
    /// The layout of a release.
    pub fn of(release: Release) -> Self {
        [(13, Self::E), (8, Self::D), (6, Self::C), (4, Self::B)]
            .into_iter()
            .find(|(patch, _)| release.has(*patch))
            .map_or(Self::A, |(_, layout)| layout)
    }

    /// The release meant when only a layout is named.
    pub fn release(self) -> Release {
        let text = match self {
            Self::A => "0.5.3",
            Self::B => "0.5.5",
            Self::C => return Release::USUAL,
            Self::D => "0.5.12",
            Self::E => return Release::NEWEST,
        };
        text.parse()
            .expect("the releases named here are known ones")
    }
}

impl FromStr for Layout {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "A" => Ok(Self::A),
            "B" => Ok(Self::B),
            "C" => Ok(Self::C),
            "D" => Ok(Self::D),
            "E" => Ok(Self::E),
            _ => Err(()),
        }
    }
}

#[cfg(test)]
mod tests;
