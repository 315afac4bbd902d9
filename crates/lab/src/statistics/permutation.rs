//! The permutation test: how often would a random division of the runs differ as much.

use super::draw::Draw;
use super::sample::mean;

/// Up to this many divisions all of them are looked at; beyond, as many random ones.
const MOST: u64 = 5000;

/// The chance of such a difference of means when the labels mean nothing. Nothing when one side
/// is empty.
pub fn permutation_p(first: &[f64], second: &[f64], seed: u64) -> Option<f64> {
    if first.is_empty() || second.is_empty() {
        return None;
    }
    let pooled: Vec<f64> = first.iter().chain(second).copied().collect();
    let scale = pooled
        .iter()
        .fold(f64::MIN_POSITIVE, |most, value| most.max(value.abs()));
    let observed = (mean(second) - mean(first)).abs() - 1e-12 * scale;
    let total: f64 = pooled.iter().sum();
    let (few, many) = (first.len(), second.len());
    let as_far = |sum: f64| {
        let apart = (total - sum) / many as f64 - sum / few as f64;
        apart.abs() >= observed
    };
    if divisions(pooled.len() as u64, few as u64).is_some_and(|count| count <= MOST) {
        let (mut far, mut all) = (0u32, 0u32);
        each_choice(&pooled, few, &mut |sum| {
            all += 1;
            far += u32::from(as_far(sum));
        });
        return Some(f64::from(far) / f64::from(all));
    }
    let mut draw = Draw::seeded(seed);
    let mut shuffled = pooled;
    let far = (0..MOST).filter(|_| {
        for at in 0..few {
            let other = at + draw.below(shuffled.len() - at);
            shuffled.swap(at, other);
        }
        as_far(shuffled[..few].iter().sum())
    });
    Some((far.count() + 1) as f64 / (MOST + 1) as f64)
}

/// The smallest chance that so many runs of either side can ever give.
pub fn least_permutation_p((first, second): (usize, usize)) -> f64 {
    let count = divisions((first + second) as u64, first as u64).filter(|count| *count <= MOST);
    // of equal sides, the division with the labels exchanged is as far apart
    let far = if first == second { 2.0 } else { 1.0 };
    let least = count.map_or(1.0 / (MOST + 1) as f64, |count| far / count as f64);
    least * (1.0 + 1e-9)
}

/// The chance of such a mean difference within rounds when which arm is which means nothing: the signs
/// of the differences are exchanged. Nothing without rounds.
pub fn sign_flip_p(differences: &[f64], seed: u64) -> Option<f64> {
    if differences.is_empty() {
        return None;
    }
    let scale: f64 = differences.iter().map(|value| value.abs()).sum();
    let observed = differences.iter().sum::<f64>().abs() - 1e-12 * scale;
    let as_far =
        |signs: u64| {
            let flipped = differences.iter().enumerate().map(|(at, value)| {
                if signs >> at & 1 == 1 { -value } else { *value }
            });
            flipped.sum::<f64>().abs() >= observed
        };
    if let Some(count) = flips(differences.len()) {
        let far = (0..count).filter(|signs| as_far(*signs)).count();
        return Some(far as f64 / count as f64);
    }
    let mut draw = Draw::seeded(seed);
    let far = (0..MOST).filter(|_| {
        let sum = differences.iter().fold(0.0, |sum, value| {
            if draw.number() >> 63 == 1 {
                sum - value
            } else {
                sum + value
            }
        });
        sum.abs() >= observed
    });
    Some((far.count() + 1) as f64 / (MOST + 1) as f64)
}

/// The smallest chance that this number of rounds can ever give.
pub fn least_sign_flip_p(rounds: usize) -> f64 {
    // with all signs exchanged the mean is as far from zero
    let least = flips(rounds).map_or(1.0 / (MOST + 1) as f64, |count| 2.0 / count as f64);
    least * (1.0 + 1e-9)
}

/// All ways to exchange signs; nothing when they are too many to look at.
fn flips(rounds: usize) -> Option<u64> {
    let count = u32::try_from(rounds)
        .ok()
        .and_then(|rounds| 1u64.checked_shl(rounds));
    count.filter(|count| *count <= MOST)
}

/// How many ways there are to choose; nothing when they are too many to count.
fn divisions(of: u64, choose: u64) -> Option<u64> {
    let choose = choose.min(of - choose);
    (0..choose).try_fold(1u64, |ways, step| {
        ways.checked_mul(of - step)
            .map(|product| product / (step + 1))
    })
}

/// Calls back with the sum of every choice of so many values.
fn each_choice(values: &[f64], choose: usize, back: &mut dyn FnMut(f64)) {
    fn go(values: &[f64], choose: usize, sum: f64, back: &mut dyn FnMut(f64)) {
        if choose == 0 {
            back(sum);
            return;
        }
        for at in 0..=values.len() - choose {
            go(&values[at + 1..], choose - 1, sum + values[at], back);
        }
    }
    go(values, choose, 0.0, back);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::reference::samples;

    #[test]
    fn small_samples_are_counted_out_as_scipy_does() {
        for (first, second, expected) in samples("permutation") {
            let found = permutation_p(&first, &second, 1).unwrap();
            assert!((found - expected[0]).abs() < 1e-12, "{found} {expected:?}");
        }
    }

    #[test]
    fn large_samples_are_drawn_with_a_fixed_seed() {
        let first: Vec<f64> = (0..20).map(f64::from).collect();
        let second: Vec<f64> = (0..20).map(|value| f64::from(value) + 1.0).collect();
        let once = permutation_p(&first, &second, 5);
        assert_eq!(once, permutation_p(&first, &second, 5));
        assert!(once.is_some_and(|p| (0.55..0.65).contains(&p)), "{once:?}");
        assert_eq!(permutation_p(&[], &second, 5), None);
    }

    #[test]
    fn few_runs_cannot_give_a_small_chance() {
        let (low, high) = ([1.0, 2.0, 3.0, 4.0], [7.0, 8.0, 9.0]);
        for few in 2..=4 {
            let found = permutation_p(&low[..few], &high, 1).unwrap();
            assert!(found <= least_permutation_p((few, 3)), "{found} of {few}");
            assert!(
                found > least_permutation_p((few, 3)) * 0.999,
                "{found} of {few}"
            );
        }
        assert!(least_permutation_p((50, 50)) < 0.001);
    }

    #[test]
    fn signs_of_rounds_are_counted_out_or_drawn() {
        // all but two of eight are nearer to zero
        assert_eq!(sign_flip_p(&[1.0, 2.0, 3.0], 1), Some(0.25));
        assert_eq!(sign_flip_p(&[1.0, -2.0, 3.0], 1), Some(0.75));
        assert!(sign_flip_p(&[1.0, 2.0, 3.0], 1) <= Some(least_sign_flip_p(3)));
        let many: Vec<f64> = (0..40).map(|value| f64::from(value % 5) - 1.0).collect();
        let once = sign_flip_p(&many, 5);
        assert_eq!(once, sign_flip_p(&many, 5));
        assert!(once.is_some_and(|p| p < 0.01), "{once:?}");
        assert_eq!(sign_flip_p(&[], 1), None);
    }

    #[test]
    fn ways_to_choose_are_counted() {
        assert_eq!(divisions(6, 3), Some(20));
        assert_eq!(divisions(40, 20), Some(137_846_528_820));
        assert_eq!(divisions(400, 200), None);
        assert_eq!(divisions(5, 0), Some(1));
    }
}
