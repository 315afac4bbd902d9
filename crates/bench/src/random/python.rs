//! The stream of Python's `random` module.

use super::mt19937::Mt19937;
use std::collections::BTreeSet;

/// Python's global generator: shuffles, choices and samples.
#[derive(Clone)]
pub struct PythonRandom {
    words: Mt19937,
}

impl PythonRandom {
    /// The state after `random.seed(seed)`.
    pub fn seeded(seed: u32) -> Self {
        Self {
            words: Mt19937::from_key(seed),
        }
    }

    /// A uniform integer in `0..bound`, by rejection on the bit length of the bound.
    ///
    /// # Panics
    /// When the bound is zero or above 2³²−1.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "a draw needs at least one outcome");
        let bits = usize::BITS - bound.leading_zeros();
        assert!(bits <= 32, "a draw of more than 32 bits is not supported");
        loop {
            let draw = (self.words.word() >> (32 - bits)) as usize;
            if draw < bound {
                return draw;
            }
        }
    }

    /// A uniform double in [0, 1).
    pub fn unit(&mut self) -> f64 {
        self.words.unit()
    }

    /// `random.shuffle`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }

    /// `random.choices(items, k=count)`: picks with replacement.
    pub fn choices<T: Copy>(&mut self, items: &[T], count: usize) -> Vec<T> {
        (0..count)
            .map(|_| items[(self.unit() * items.len() as f64) as usize])
            .collect()
    }

    /// The positions `random.sample` would select from a list of `length` items.
    ///
    /// # Panics
    /// When more positions are asked for than there are.
    pub fn sample(&mut self, length: usize, count: usize) -> Vec<usize> {
        assert!(
            count <= length,
            "a sample is not larger than what it is drawn from"
        );
        if length <= pool_limit(count) {
            let mut pool: Vec<usize> = (0..length).collect();
            (0..count)
                .map(|taken| {
                    let draw = self.below(length - taken);
                    let position = pool[draw];
                    pool[draw] = pool[length - taken - 1];
                    position
                })
                .collect()
        } else {
            let mut selected = BTreeSet::new();
            (0..count)
                .map(|_| {
                    let mut draw = self.below(length);
                    while !selected.insert(draw) {
                        draw = self.below(length);
                    }
                    draw
                })
                .collect()
        }
    }
}

/// Up to this length `random.sample` keeps a pool of positions, above it a set of those taken.
fn pool_limit(count: usize) -> usize {
    let mut limit = 21;
    if count > 5 {
        limit += 4_usize.pow(((count * 3) as f64).log(4.0).ceil() as u32);
    }
    limit
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A seed, a shuffle of ten, the head of a shuffle of 90000, eight choices of a hundred.
    type Vectors = (u32, [usize; 10], [usize; 6], [usize; 8]);

    #[test]
    fn shuffles_and_choices_equal_the_reference_vectors() {
        let cases: [Vectors; 3] = [
            (
                0,
                [7, 8, 1, 5, 3, 4, 2, 0, 9, 6],
                [76472, 63070, 2601, 77470, 3598, 48882],
                [84, 75, 42, 25, 51, 40, 78, 30],
            ),
            (
                1,
                [6, 8, 9, 7, 5, 3, 0, 4, 1, 2],
                [49296, 29087, 34327, 85074, 69620, 70619],
                [13, 84, 76, 25, 49, 44, 65, 78],
            ),
            (
                42,
                [7, 3, 2, 8, 5, 6, 9, 4, 0, 1],
                [921, 26162, 82098, 83321, 5770, 62637],
                [63, 2, 27, 22, 73, 67, 89, 8],
            ),
        ];
        for (seed, ten, head, chosen) in cases {
            let mut items: Vec<usize> = (0..10).collect();
            PythonRandom::seeded(seed).shuffle(&mut items);
            assert_eq!(items, ten, "seed {seed}");
            let mut items: Vec<usize> = (0..90_000).collect();
            PythonRandom::seeded(seed).shuffle(&mut items);
            assert_eq!(items[..6], head, "seed {seed}");
            let items: Vec<usize> = (0..100).collect();
            assert_eq!(
                PythonRandom::seeded(seed).choices(&items, 8),
                chosen,
                "seed {seed}"
            );
        }
    }

    #[test]
    fn samples_equal_cpython_for_small_and_large_populations() {
        // random.seed(1); random.sample(range(30), 4), then of range(100000), then of range(50)
        let mut random = PythonRandom::seeded(1);
        assert_eq!(random.sample(30, 4), [4, 18, 27, 25]);
        assert_eq!(random.sample(100_000, 3), [8271, 33_432, 15_455]);
        assert_eq!(random.sample(50, 7), [31, 48, 28, 30, 41, 24, 13]);
    }
}
