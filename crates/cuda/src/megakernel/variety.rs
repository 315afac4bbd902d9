//! Which variety of the kernel runs some stages: all weights have one format, and so have all caches.

use ops::DeviceError;

use super::Stage;
use crate::launch::WHOLE_ROOM;
use crate::module::{Function, Modules};

/// The format of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elements {
    /// bf16.
    Bf16,
    /// bf12, 12-bit lossless bf16.
    Bf12,
    /// Eight-bit floats.
    E4m3,
}

/// What stages ask of their kernel: the format of weights, and whether keys and values are e4m3. None where a stage has no
/// weights, or no cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Variety {
    pub(super) weights: Option<Elements>,
    pub(super) cache: Option<bool>,
}

impl Variety {
    /// Of all stages together; none when no kernel runs them all.
    pub(super) fn of(stages: &[Stage]) -> Option<Self> {
        stages
            .iter()
            .try_fold(Self::default(), |all, stage| all.with(stage.variety()))
    }

    /// Of both; none when they disagree.
    pub(super) fn with(self, other: Self) -> Option<Self> {
        let agree = agrees(self.weights, other.weights) && agrees(self.cache, other.cache);
        agree.then(|| Self {
            weights: self.weights.or(other.weights),
            cache: self.cache.or(other.cache),
        })
    }
}

/// The kernel of every variety.
pub(super) struct Varieties([[Function; 2]; 3]);

impl Varieties {
    pub(super) fn new(modules: &Modules) -> Result<Self, DeviceError> {
        let find = |name| modules.find_with_shared(name, WHOLE_ROOM);
        Ok(Self([
            [find("megakernel")?, find("megakernel_kv8")?],
            [find("megakernel_bf12")?, find("megakernel_bf12_kv8")?],
            [find("megakernel_w8")?, find("megakernel_w8_kv8")?],
        ]))
    }

    pub(super) fn of(&self, variety: Variety) -> Function {
        let weights = variety.weights.unwrap_or(Elements::Bf16);
        self.0[weights as usize][usize::from(variety.cache.unwrap_or(false))]
    }
}

fn agrees<T: Copy + PartialEq>(one: Option<T>, two: Option<T>) -> bool {
    one.is_none() || two.is_none() || one == two
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_share_a_kernel_where_their_formats_agree() {
        let variety = |weights, cache| Variety { weights, cache };
        let (plain, narrow) = (Some(Elements::Bf16), Some(Elements::E4m3));
        let bf12 = Some(Elements::Bf12);
        let (wide_cache, narrow_cache) = (Some(false), Some(true));
        for (one, two, both) in [
            (
                variety(narrow, None),
                variety(None, wide_cache),
                Some(variety(narrow, wide_cache)),
            ),
            (
                variety(plain, narrow_cache),
                variety(plain, None),
                Some(variety(plain, narrow_cache)),
            ),
            (
                variety(bf12, None),
                variety(bf12, narrow_cache),
                Some(variety(bf12, narrow_cache)),
            ),
            (variety(narrow, wide_cache), variety(plain, None), None),
            (variety(bf12, None), variety(plain, None), None),
            (variety(None, wide_cache), variety(None, narrow_cache), None),
        ] {
            assert_eq!(one.with(two), both, "{one:?} and {two:?}");
            assert_eq!(two.with(one), both, "{two:?} and {one:?}");
        }
    }
}
