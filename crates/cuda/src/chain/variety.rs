//! Which kernel runs a chain: weights of its links are all of bf16 or all of eight-bit floats, and so is what they attend to.

use ops::DeviceError;

use super::Link;
use crate::launch::WHOLE_ROOM;
use crate::module::{Function, Modules};

/// What links ask of their kernel: whether weights, and keys and values, are of eight-bit floats. Nothing where a link has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Variety {
    pub(super) weights: Option<bool>,
    pub(super) cache: Option<bool>,
}

impl Variety {
    /// Of all links together; nothing when no kernel runs them all.
    pub(super) fn of(links: &[Link]) -> Option<Self> {
        links
            .iter()
            .try_fold(Self::default(), |all, link| all.with(link.variety()))
    }

    /// Of both; nothing when they disagree.
    pub(super) fn with(self, other: Self) -> Option<Self> {
        let agreed = |one: Option<bool>, two: Option<bool>| match (one, two) {
            (Some(one), Some(two)) => (one == two).then_some(Some(one)),
            _ => Some(one.or(two)),
        };
        Some(Self {
            weights: agreed(self.weights, other.weights)?,
            cache: agreed(self.cache, other.cache)?,
        })
    }
}

/// The kernel of every variety.
pub(super) struct Varieties([[Function; 2]; 2]);

impl Varieties {
    pub(super) fn new(modules: &Modules) -> Result<Self, DeviceError> {
        let find = |name| modules.find_with_shared(name, WHOLE_ROOM);
        Ok(Self([
            [find("chain")?, find("chain_kv8")?],
            [find("chain_w8")?, find("chain_w8_kv8")?],
        ]))
    }

    pub(super) fn of(&self, variety: Variety) -> Function {
        let index = |narrow: Option<bool>| usize::from(narrow.unwrap_or(false));
        self.0[index(variety.weights)][index(variety.cache)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_share_a_kernel_where_nothing_of_one_contradicts_another() {
        let variety = |weights, cache| Variety { weights, cache };
        let (plain, narrow) = (Some(false), Some(true));
        for (one, two, both) in [
            (
                variety(narrow, None),
                variety(None, plain),
                Some(variety(narrow, plain)),
            ),
            (
                variety(plain, narrow),
                variety(plain, None),
                Some(variety(plain, narrow)),
            ),
            (variety(narrow, plain), variety(plain, None), None),
            (variety(None, plain), variety(None, narrow), None),
        ] {
            assert_eq!(one.with(two), both, "{one:?} and {two:?}");
            assert_eq!(two.with(one), both, "{two:?} and {one:?}");
        }
    }
}
