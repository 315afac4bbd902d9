//! Random draws that are the same on every machine for ever.

/// A generator of 64-bit numbers (splitmix64).
#[derive(Debug, Clone)]
pub struct Draw {
    state: u64,
}

impl Draw {
    /// The generator of a seed.
    pub fn seeded(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below a bound that is not zero.
    pub fn below(&mut self, bound: usize) -> usize {
        let product = u128::from(self.number()) * bound as u128;
        (product >> 64) as usize
    }

    /// A number from 0 to 1, 1 excluded.
    pub fn unit(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number from the standard normal distribution.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Puts values into random order.
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            values.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_never_change() {
        let mut draw = Draw::seeded(1);
        assert_eq!(draw.number(), 0x910a_2dec_8902_5cc1);
        let mut values = [1, 2, 3, 4, 5];
        draw.shuffle(&mut values);
        values.sort_unstable();
        assert_eq!(values, [1, 2, 3, 4, 5]);
        assert!((0..1000).all(|_| draw.below(3) < 3 && draw.unit() < 1.0));
    }

    #[test]
    fn normal_draws_have_mean_zero_and_deviation_one() {
        let mut draw = Draw::seeded(7);
        let values: Vec<f64> = (0..20_000).map(|_| draw.normal()).collect();
        let mean = super::super::mean(&values);
        let deviation = super::super::standard_deviation(&values);
        assert!(
            mean.abs() < 0.02 && (deviation - 1.0).abs() < 0.02,
            "{mean} {deviation}"
        );
    }
}
