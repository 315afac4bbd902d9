//! Drawn lengths of prompts and answers.

use crate::random::NumpyRandom;

/// `count` lengths between the given share of `full` (at least one) and `full` itself.
///
/// A share of one draws nothing; a length of zero is zero.
pub(super) fn draw(random: &mut NumpyRandom, full: u64, share: f64, count: usize) -> Vec<u64> {
    if full == 0 {
        return vec![0; count];
    }
    let low = ((full as f64 * share) as u64).clamp(1, full);
    (0..count).map(|_| random.integer(low, full + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_lie_between_the_share_and_the_whole() {
        let mut random = NumpyRandom::seeded(0);
        assert_eq!(draw(&mut random, 1024, 0.5, 3), [704, 871, 521]);
        assert_eq!(draw(&mut random, 7, 1.0, 2), [7, 7]);
        assert_eq!(draw(&mut random, 0, 0.5, 2), [0, 0]);
        let mut random = NumpyRandom::seeded(0);
        assert_eq!(draw(&mut random, 1024, 0.0, 3), [685, 560, 630]);
    }
}
