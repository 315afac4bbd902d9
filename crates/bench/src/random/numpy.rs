//! The stream of NumPy's legacy global generator.

use super::mt19937::Mt19937;
use super::weighted_index;

/// NumPy's legacy global state: integer ranges, uniforms and exponentials.
#[derive(Clone)]
pub struct NumpyRandom {
    words: Mt19937,
}

impl NumpyRandom {
    /// The state after `numpy.random.seed(seed)`.
    pub fn seeded(seed: u32) -> Self {
        Self {
            words: Mt19937::from_word(seed),
        }
    }

    /// A uniform integer in `low..high` by masked rejection; a range of one consumes nothing.
    ///
    /// # Panics
    /// When the range is empty or wider than 32 bits.
    pub fn integer(&mut self, low: u64, high: u64) -> u64 {
        assert!(low < high, "a draw needs at least one outcome");
        let span = high - 1 - low;
        if span == 0 {
            return low;
        }
        let span = u32::try_from(span).expect("a range is narrower than 32 bits");
        let mask = u32::MAX >> span.leading_zeros();
        loop {
            let draw = self.words.word() & mask;
            if draw <= span {
                return low + u64::from(draw);
            }
        }
    }

    /// A uniform double in [0, 1).
    pub fn unit(&mut self) -> f64 {
        self.words.unit()
    }

    /// An exponential draw with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -(1.0 - self.unit()).ln() * mean
    }

    /// The index `numpy.random.choice` takes under the given probabilities.
    pub fn choice(&mut self, probabilities: &[f64]) -> usize {
        weighted_index(probabilities, self.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_equal_the_reference_vectors() {
        let wide = [
            (0, [704, 871, 521, 789, 582, 984, 908, 826]),
            (1, [549, 747, 584, 656, 641, 1020, 902, 793]),
            (42, [614, 947, 782, 618, 583, 532, 633, 978]),
        ];
        for (seed, expected) in wide {
            let mut random = NumpyRandom::seeded(seed);
            assert_eq!(
                [0; 8].map(|_| random.integer(512, 1025)),
                expected,
                "seed {seed}"
            );
        }
        let from_one = [
            (0, [685, 560, 630, 193, 836, 764, 708, 360]),
            (1, [38, 236, 909, 73, 768, 906, 716, 646]),
            (42, [103, 436, 861, 271, 107, 72, 701, 21]),
        ];
        for (seed, expected) in from_one {
            let mut random = NumpyRandom::seeded(seed);
            assert_eq!(
                [0; 8].map(|_| random.integer(1, 1025)),
                expected,
                "seed {seed}"
            );
        }
    }

    #[test]
    fn a_range_of_one_consumes_no_random_numbers() {
        let vectors = [
            (0, [43567, 117_952, 95939, 97639]),
            (1, [128_037, 5192, 50057, 109_259]),
            (42, [121_958, 146_867, 131_932, 103_694]),
        ];
        for (seed, expected) in vectors {
            let mut random = NumpyRandom::seeded(seed);
            for _ in 0..2000 {
                assert_eq!(random.integer(1024, 1025), 1024);
            }
            assert_eq!(
                [0; 4].map(|_| random.integer(0, 151_643)),
                expected,
                "seed {seed}"
            );
        }
    }

    #[test]
    fn exponential_gaps_equal_the_reference_vectors() {
        let vectors = [
            (0, [0.039_793_725_4, 0.062_796_538_1, 0.046_161_157_3]),
            (1, [0.026_980_291_9, 0.063_706_262_7, 0.000_005_719_1]),
            (42, [0.023_463_404_5, 0.150_506_071_5, 0.065_837_284_7]),
        ];
        for (seed, expected) in vectors {
            let mut random = NumpyRandom::seeded(seed);
            for gap in expected {
                let drawn = random.exponential(1.0 / 20.0);
                assert!(
                    (drawn - gap).abs() < 1e-10,
                    "seed {seed}: {drawn} for {gap}"
                );
            }
        }
    }

    #[test]
    fn weighted_choices_equal_numpy() {
        // numpy.random.seed(3); [choice(3, p=[.5, .3, .2]) for _ in range(10)]
        let mut random = NumpyRandom::seeded(3);
        let drawn = [0; 10].map(|_| random.choice(&[0.5, 0.3, 0.2]));
        assert_eq!(drawn, [1, 1, 0, 1, 2, 2, 0, 0, 0, 0]);
    }
}
