//! Sums, means and percentiles, with NumPy's order of operations and therefore its last digit.

/// Blocks up to this length are summed in eight lanes.
const BLOCK: usize = 128;

/// The sum in NumPy's pairwise order.
pub fn pairwise_sum(values: &[f64]) -> f64 {
    pairwise_sum_of(values, &|value| value)
}

/// The same of something made from each value.
fn pairwise_sum_of(values: &[f64], of: &impl Fn(f64) -> f64) -> f64 {
    match values.len() {
        0..8 => values.iter().map(|value| of(*value)).sum::<f64>() + 0.0,
        8..=BLOCK => {
            let whole = values.len() - values.len() % 8;
            let (lanes_of, rest) = values.split_at(whole);
            let mut lanes = [0.0; 8];
            for (lane, value) in lanes.iter_mut().zip(lanes_of) {
                *lane = of(*value);
            }
            for eight in lanes_of[8..].chunks_exact(8) {
                for (lane, value) in lanes.iter_mut().zip(eight) {
                    *lane += of(*value);
                }
            }
            let [a, b, c, d, e, f, g, h] = lanes;
            let sum = ((a + b) + (c + d)) + ((e + f) + (g + h));
            rest.iter().fold(sum, |sum, value| sum + of(*value))
        }
        length => {
            let half = length / 2;
            let (left, right) = values.split_at(half - half % 8);
            pairwise_sum_of(left, of) + pairwise_sum_of(right, of)
        }
    }
}

/// The mean; not a number when there are no values.
pub fn mean(values: &[f64]) -> f64 {
    pairwise_sum(values) / values.len() as f64
}

/// The standard deviation of the whole population.
pub fn standard_deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares = pairwise_sum_of(values, &|value| (value - mean) * (value - mean));
    (squares / values.len() as f64).sqrt()
}

/// The middle of sorted values, or the mean of the middle two.
pub fn median(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => sorted[half],
        _ => mean(&[sorted[half - 1], sorted[half]]),
    }
}

/// The percentile of sorted values, interpolated linearly between ranks.
pub fn percentile(sorted: &[f64], percent: f64) -> f64 {
    if sorted.is_empty() {
        return f64::NAN;
    }
    let rank = (sorted.len() - 1) as f64 * (percent / 100.0);
    let below = rank.floor();
    let (low, high) = (below as usize, (below as usize + 1).min(sorted.len() - 1));
    let share = rank - below;
    let step = sorted[high] - sorted[low];
    // From the nearer end, as NumPy does, so that both ends are hit exactly.
    if share >= 0.5 {
        sorted[high] - step * (1.0 - share)
    } else {
        sorted[low] + step * share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sum, mean, deviation, median, percentiles 95 and 99 of so many values, by NumPy 2.4.6.
    const NUMPY: &[(u64, [u64; 6])] = &[
        (
            1,
            [
                0x3f8a_b440_b4c4_2c2a,
                0x3f8a_b440_b4c4_2c2a,
                0x0000_0000_0000_0000,
                0x3f8a_b440_b4c4_2c2a,
                0x3f8a_b440_b4c4_2c2a,
                0x3f8a_b440_b4c4_2c2a,
            ],
        ),
        (
            2,
            [
                0x401f_e029_154f_db06,
                0x400f_e029_154f_db06,
                0x400f_c574_d49b_16da,
                0x400f_e029_154f_db06,
                0x401e_3c22_b720_eafe,
                0x401f_8179_4efe_2959,
            ],
        ),
        (
            7,
            [
                0x4042_3440_b4c4_2c2a,
                0x4014_ce00_ce97_0de7,
                0x400a_1122_36c3_beb2,
                0x4017_7243_4619_29db,
                0x4022_3c57_4d49_b16d,
                0x4023_0851_c173_6480,
            ],
        ),
        (
            8,
            [
                0x4044_eaf1_e0ac_8cb6,
                0x4014_eaf1_e0ac_8cb6,
                0x4008_6405_f713_22e0,
                0x4016_93e6_52ae_171c,
                0x4022_11d8_7516_56ca,
                0x4022_ffd1_fc9c_525f,
            ],
        ),
        (
            9,
            [
                0x4046_9591_96b9_635f,
                0x4014_132c_1433_02ff,
                0x4007_7c21_1069_28aa,
                0x4015_b589_5f43_045d,
                0x4021_e759_9ce2_fc26,
                0x4022_f752_37c5_403f,
            ],
        ),
        (
            100,
            [
                0x407f_8cb9_e6d6_257d,
                0x4014_311a_d12c_e4cb,
                0x4007_33a4_978b_d1d0,
                0x4014_608b_aedc_4f16,
                0x4023_15bf_9a1d_1100,
                0x4023_cafc_b93e_8f3d,
            ],
        ),
        (
            128,
            [
                0x4084_253b_505e_7dd2,
                0x4014_253b_505e_7dd2,
                0x4007_39a5_78d4_b220,
                0x4014_51a7_2850_1cc2,
                0x4023_05ee_6fd9_61ba,
                0x4023_bfea_4edb_faf3,
            ],
        ),
        (
            129,
            [
                0x4084_3cce_717e_1300,
                0x4014_14a5_272f_b399,
                0x4007_2e6f_a95f_15c9,
                0x4014_2a1c_3ea6_e694,
                0x4023_03f4_4a90_ebd1,
                0x4023_bf85_1433_e35e,
            ],
        ),
        (
            1000,
            [
                0x40b3_a121_1f95_2efd,
                0x4014_19bb_84b1_5707,
                0x4007_30bf_6204_3564,
                0x4014_1ab4_40b4_c42c,
                0x4023_1400_9dc2_7a53,
                0x4023_de28_5d42_4c50,
            ],
        ),
        (
            12345,
            [
                0x40ee_3eb8_64a7_6a0b,
                0x4014_11fa_e925_6a44,
                0x4007_2e11_9463_8a6d,
                0x4014_127c_ca55_c2e3,
                0x4023_119d_4c28_778d,
                0x4023_dee8_4e23_ed63,
            ],
        ),
    ];

    /// Values that every language makes alike.
    fn values(count: u64) -> Vec<f64> {
        (0..count)
            .map(|place| ((place * 7919 + 13) % 10007) as f64 / 997.0)
            .collect()
    }

    #[test]
    fn figures_equal_numpy_to_the_last_bit() {
        for (count, bits) in NUMPY {
            let values = values(*count);
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let found = [
                pairwise_sum(&values),
                mean(&values),
                standard_deviation(&values),
                median(&sorted),
                percentile(&sorted, 95.0),
                percentile(&sorted, 99.0),
            ];
            assert_eq!(found.map(f64::to_bits), *bits, "{count} values");
        }
    }

    #[test]
    fn nothing_has_no_figures() {
        assert!(mean(&[]).is_nan() && median(&[]).is_nan() && percentile(&[], 99.0).is_nan());
        assert_eq!(pairwise_sum(&[]).to_bits(), 0.0_f64.to_bits());
    }
}
