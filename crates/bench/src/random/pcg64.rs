//! The stream of `numpy.random.default_rng`: PCG64 behind NumPy's seed hashing.

use super::weighted_index;

const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

/// A PCG64 generator seeded as `numpy.random.default_rng(seed)`.
#[derive(Clone)]
pub struct Pcg64 {
    state: u128,
    increment: u128,
}

impl Pcg64 {
    /// The state after `default_rng(seed)`.
    pub fn seeded(seed: u32) -> Self {
        let words = SeedSequence::new(seed).words();
        let wide = |high: u64, low: u64| (u128::from(high) << 64) | u128::from(low);
        let mut pcg = Self {
            state: 0,
            increment: (wide(words[2], words[3]) << 1) | 1,
        };
        pcg.step();
        pcg.state = pcg.state.wrapping_add(wide(words[0], words[1]));
        pcg.step();
        pcg
    }

    /// A uniform double in [0, 1).
    pub fn unit(&mut self) -> f64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        let word = folded.rotate_right((self.state >> 122) as u32);
        (word >> 11) as f64 / 9_007_199_254_740_992.0
    }

    /// The index `Generator.choice` takes under the given probabilities.
    pub fn choice(&mut self, probabilities: &[f64]) -> usize {
        let uniform = self.unit();
        weighted_index(probabilities, uniform)
    }

    fn step(&mut self) {
        self.state = self
            .state
            .wrapping_mul(MULTIPLIER)
            .wrapping_add(self.increment);
    }
}

/// NumPy's hash of a seed into a pool of four words.
struct SeedSequence {
    pool: [u32; 4],
}

impl SeedSequence {
    fn new(seed: u32) -> Self {
        let mut hash = Hash {
            constant: 0x43b0_d7e5,
            multiplier: 0x931e_8875,
        };
        let mut pool = [seed, 0, 0, 0].map(|word| hash.mix_in(word));
        for source in 0..4 {
            for target in 0..4 {
                if source != target {
                    pool[target] = combine(pool[target], hash.mix_in(pool[source]));
                }
            }
        }
        Self { pool }
    }

    fn words(&self) -> [u64; 4] {
        let mut hash = Hash {
            constant: 0x8b51_f9dd,
            multiplier: 0x58f3_8ded,
        };
        let mut next = 0;
        let mut half = || {
            let word = hash.mix_in(self.pool[next % 4]);
            next += 1;
            u64::from(word)
        };
        [0; 4].map(|_: u64| {
            let low = half();
            low | (half() << 32)
        })
    }
}

struct Hash {
    constant: u32,
    multiplier: u32,
}

impl Hash {
    fn mix_in(&mut self, word: u32) -> u32 {
        let mut mixed = word ^ self.constant;
        self.constant = self.constant.wrapping_mul(self.multiplier);
        mixed = mixed.wrapping_mul(self.constant);
        mixed ^ (mixed >> 16)
    }
}

fn combine(left: u32, right: u32) -> u32 {
    let mixed = left
        .wrapping_mul(0xca01_f9dd)
        .wrapping_sub(right.wrapping_mul(0x4973_f715));
    mixed ^ (mixed >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_equal_default_rng() {
        // r = numpy.random.default_rng(7); r.choice(5, size=10, p=[.4, .3, .1, .1, .1]); r.random(3)
        let mut random = Pcg64::seeded(7);
        let probabilities = [0.4, 0.3, 0.1, 0.1, 0.1];
        let drawn = [0; 10].map(|_| random.choice(&probabilities));
        assert_eq!(drawn, [1, 3, 2, 0, 0, 3, 0, 3, 2, 1]);
        for expected in [0.303_032_43, 0.278_425_61, 0.254_869_59] {
            assert!((random.unit() - expected).abs() < 1e-8);
        }
    }
}
