//! Sizes of models that kernels of a device may be limited in.

use std::fmt;

use crate::Heads;

/// A model's sizes, or the largest that a device's kernels take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Attention heads.
    pub heads: Heads,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Results of the widest product for one row, a vocabulary among them.
    pub outputs: usize,
}

impl Sizes {
    /// Of kernels without limits.
    pub const ANY: Self = Self {
        heads: Heads {
            query: usize::MAX,
            kv: usize::MAX,
            dim: usize::MAX,
        },
        hidden: usize::MAX,
        outputs: usize::MAX,
    };

    fn named(&self) -> [(&'static str, usize); 5] {
        [
            ("head size", self.heads.dim),
            ("query heads", self.heads.query),
            ("key heads", self.heads.kv),
            ("hidden size", self.hidden),
            ("widest projection", self.outputs),
        ]
    }

    /// All of them that are beyond the largest.
    pub fn beyond(&self, largest: &Self) -> Vec<Beyond> {
        let both = self.named().into_iter().zip(largest.named());
        let beyond = both.filter(|((_, found), (_, most))| found > most);
        let told = beyond.map(|((what, found), (_, most))| Beyond { what, found, most });
        told.collect()
    }
}

/// A size that a device's kernels do not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beyond {
    /// Which one.
    pub what: &'static str,
    /// The model's.
    pub found: usize,
    /// The largest that they take.
    pub most: usize,
}

impl fmt::Display for Beyond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, found, most } = self;
        write!(f, "{what} {found}, where {most} is the most")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_that_is_too_large_is_told_and_no_other() {
        let largest = Sizes {
            heads: Heads {
                query: 256,
                kv: 64,
                dim: 256,
            },
            hidden: 16_384,
            outputs: 500_000,
        };
        assert_eq!(largest.beyond(&largest), []);
        assert_eq!(largest.beyond(&Sizes::ANY), []);
        let mut model = largest;
        (model.heads.dim, model.hidden, model.heads.kv) = (512, 20_480, 1);
        let told: Vec<String> = model
            .beyond(&largest)
            .iter()
            .map(Beyond::to_string)
            .collect();
        let expected = [
            "head size 512, where 256 is the most",
            "hidden size 20480, where 16384 is the most",
        ];
        assert_eq!(told, expected);
    }
}
